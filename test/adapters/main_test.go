package adapters

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// workerPath is the worker as it is installed.
var workerPath string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if playsRole() {
		return 0
	}
	dir, err := os.MkdirTemp("", "adapters-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		workerPath = filepath.Join(dir, "worker")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", workerPath, "turnstile/cmd/worker").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
