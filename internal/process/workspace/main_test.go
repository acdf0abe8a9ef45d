package workspace

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// fewFiles is how many files the worker of test-remove may open.
const fewFiles = 128

// The test binary is also another user's worker, see as, and one with few files.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "test-remove" {
		err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: fewFiles, Max: fewFiles})
		if err == nil {
			_, err = Remove(os.Args[2], "a")
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 5 && os.Args[1] == "test-directory" {
		slog.SetDefault(slog.New(slog.DiscardHandler)) // it would stand before the path
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
