// Package neighbours has no code: its tests run the worker and the sender of the version before
// (.ci/previous) together with those of this one, on one Redis, as during a deploy. They need its
// binaries, in the folders that TURNSTILE_NEIGHBOUR and TURNSTILE_TODAY name: `make neighbours` builds
// them and runs the tests.
package neighbours

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"turnstile/test/redistest"
)

// The folders with the programs of the version before and of this one.
const (
	variable      = "TURNSTILE_NEIGHBOUR"
	todayVariable = "TURNSTILE_TODAY"
)

// version is the programs of one version.
type version struct {
	name string // old or new
	bin  string // the folder with worker and enqueue
}

// built are the two versions; without folders without TURNSTILE_NEIGHBOUR.
var built = struct{ old, new version }{version{name: "old"}, version{name: "new"}}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	old, today := os.Getenv(variable), os.Getenv(todayVariable)
	if old == "" {
		return m.Run()
	}
	// Settings of the environment must not change the tests.
	_ = os.Unsetenv(variable)
	_ = os.Unsetenv(todayVariable)
	for _, v := range []struct {
		is            *version
		variable, bin string
	}{{&built.old, variable, old}, {&built.new, todayVariable, today}} {
		bin, err := filepath.Abs(v.bin)
		if err != nil {
			return fail(err)
		}
		*v.is = version{v.is.name, bin}
		for _, program := range []string{"worker", "enqueue"} {
			if _, err := exec.LookPath(v.is.program(program)); err != nil {
				return fail(fmt.Errorf("%s=%s: %w", v.variable, v.bin, err))
			}
		}
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
