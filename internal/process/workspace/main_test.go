package workspace

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// The test binary is also another user's worker; see as.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "test-directory" {
		root := Root{Path: os.Args[2]}
		if gid, err := strconv.Atoi(os.Args[4]); err == nil {
			root.Group = &gid
		}
		dir, err := root.Directory(os.Args[3])
		if err != nil {
			fmt.Println("refused:", err)
			os.Exit(0)
		}
		fmt.Println(dir)
		os.Exit(0)
	}
	syscall.Umask(0o022) // so that only its owner may write to t.TempDir
	os.Exit(m.Run())
}
