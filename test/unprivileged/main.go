package unprivileged

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/program"
)

// Main is the TestMain of a package whose test binary is an agent, too. Started with role=NAME it plays that role, with
// the words after it. Otherwise it runs the tests: worker and agent get the paths of both programs, which are owned by
// the user that runs the tests, and which all may read.
func Main(m *testing.M, roles map[string]func(args []string), worker, agent *string) {
	if len(os.Args) > 1 {
		if name, ok := strings.CutPrefix(os.Args[1], "role="); ok {
			roles[name](os.Args[2:])
			return
		}
	}
	os.Exit(run(m, worker, agent))
}

func run(m *testing.M, worker, agent *string) int {
	dir, err := os.MkdirTemp("", "unprivileged-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		*worker, *agent = filepath.Join(dir, "worker"), filepath.Join(dir, "agent")
		err = installBoth(dir, *worker, *agent)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func installBoth(dir, worker, agent string) error {
	built, err := program.Path("turnstile/cmd/worker")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for path, from := range map[string]string{worker: built, agent: self} {
		if err := Install(path, from, 0o755); err != nil {
			return err
		}
	}
	return os.Chmod(dir, 0o755) //nolint:gosec // an unprivileged user runs them
}
