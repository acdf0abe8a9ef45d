// Package neighbours has no code: its tests run the worker and the sender of the version before
// (.ci/previous) beside those of this one, on one Redis, as during a deploy. They need its
// binaries, in the folder that TURNSTILE_NEIGHBOUR names: `make neighbours` builds them and runs
// the tests.
package neighbours

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"turnstile/test/redistest"
)

const variable = "TURNSTILE_NEIGHBOUR"

// version is the programs of one version.
type version struct {
	name string // old or new
	bin  string // the folder with worker and enqueue
}

// built are the two versions; empty without TURNSTILE_NEIGHBOUR.
var built struct{ old, new version }

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	old := os.Getenv(variable)
	if old == "" {
		return m.Run()
	}
	// Settings of the environment must not change the tests.
	_ = os.Unsetenv(variable)
	dir, err := os.MkdirTemp("", "neighbours-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	if old, err = filepath.Abs(old); err != nil {
		return fail(err)
	}
	built.old, built.new = version{"old", old}, version{"new", dir}
	for _, program := range []string{"worker", "enqueue"} {
		if _, err := exec.LookPath(built.old.program(program)); err != nil {
			return fail(fmt.Errorf("%s=%s: %w", variable, old, err))
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-o", dir+"/", "./cmd/...")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return fail(fmt.Errorf("go build: %w\n%s", err, out))
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "neighbours:", err)
	return 1
}

func (v version) program(name string) string { return filepath.Join(v.bin, name) }

// versions are the one before and this one. Without the one before the test is skipped, with a
// message.
func versions(t *testing.T) (before, this version) {
	t.Helper()
	if built.old.bin == "" {
		reason := "needs the programs of the version before: run `make neighbours`"
		fmt.Fprintf(os.Stderr, "neighbours: SKIPPED %s: it %s\n", t.Name(), reason)
		t.Skip(reason)
	}
	redistest.Real(t)
	return built.old, built.new
}
