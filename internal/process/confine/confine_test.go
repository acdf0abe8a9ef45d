//go:build unix

package confine

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
	"turnstile/pkg/agent"
	"turnstile/test/expect"
)

func TestMain(m *testing.M) {
	Init()
	guardian.Init()
	goleak.VerifyTestMain(m)
}

// start starts a program of session "s", and returns its output.
func start(t testing.TB, i agent.Isolation, trusted []string, argv ...string) (string, error) {
	t.Helper()
	isolator, err := command.NewIsolator(i, trusted...)
	expect.OK(t, err)
	return startSpec(t, isolator, command.Spec{Argv: argv})
}

func startSpec(t testing.TB, isolator command.Isolator, spec command.Spec) (string, error) {
	t.Helper()
	spec.Env, spec.Logger = os.Environ(), slog.New(slog.DiscardHandler)
	spec, err := isolator.Apply(spec, "s")
	expect.OK(t, err)
	c, err := command.Start(spec)
	expect.OK(t, err)
	_ = c.Stdin.Close()
	out, err := io.ReadAll(c.Stdout)
	expect.OK(t, err)
	status := c.Wait()
	c.CloseOutput()
	return string(out), errors.Join(command.Unfit(status), c.Failure(status))
}

// confined skips the test where this system cannot confine programs, or fails it in CI on Linux.
func confined(t testing.TB) agent.Isolation {
	t.Helper()
	if err := Check(); err != nil {
		if on, _ := strconv.ParseBool(os.Getenv("CI")); on {
			t.Fatalf("NOT TESTED: %v", err)
		}
		t.Skipf("NOT TESTED: %v", err)
	}
	return agent.Isolation{Level: agent.IsolationConfined, Workspace: filepath.Join(t.TempDir(), "work")}
}

// A confined program works in its session's directory, with HOME and TMPDIR beside it.
func TestHasItsDirectories(t *testing.T) {
	t.Parallel()
	i := confined(t)
	out, err := start(t, i, nil, "sh", "-c", `for d in . "$HOME" "$TMPDIR"; do echo ok >"$d/file" && cat "$d/file"; done; pwd; echo "$HOME"; echo "$TMPDIR"`)
	expect.OK(t, err)
	dir := filepath.Join(i.Workspace, "043a718774c572bd8a25adbeb1bfcd5c")
	expect.Equal(t, "output", out, fmt.Sprintf("ok\nok\nok\n%s\n%s.home/default\n%[1]s.tmp/default\n", dir, dir))
}

// A program reads the files that the operator names, and not those of its arguments.
func TestReadsWhatTheOperatorNames(t *testing.T) {
	t.Parallel()
	i := confined(t)
	named, other := filepath.Join(t.TempDir(), "named"), filepath.Join(t.TempDir(), "other")
	module := filepath.Join(t.TempDir(), "node_modules", "module")
	expect.OK(t, os.Mkdir(filepath.Dir(module), 0o700))
	for _, path := range []string{named, other, module, filepath.Join(filepath.Dir(module), "data")} {
		expect.OK(t, os.WriteFile(path, []byte("text"), 0o700)) //nolint:gosec // a program
	}
	trusted := []string{"cat", named, module}
	for _, path := range []string{named, module, filepath.Join(filepath.Dir(module), "data")} {
		out, err := start(t, i, trusted, "cat", path)
		expect.OK(t, err)
		expect.Equal(t, path, out, "text")
	}
	if out, err := start(t, i, trusted, "cat", other); err == nil || out != "" {
		t.Errorf("it read %q", out)
	}
	i.Read = []string{filepath.Dir(other)}
	out, err := start(t, i, trusted, "cat", other)
	expect.OK(t, err)
	expect.Equal(t, "with Read", out, "text")
}

// A program that cannot be started confined does not run. No attempt of the turn is spent.
func TestDoesNotStartOtherwise(t *testing.T) {
	t.Parallel()
	i := confined(t)
	program := filepath.Join(t.TempDir(), "program")
	expect.OK(t, os.WriteFile(program, []byte("#!/bin/sh\necho ran\n"), 0o700)) //nolint:gosec // a program
	out, err := start(t, i, nil, program)
	if out != "" || !errors.Is(err, agent.ErrUnavailable) || !strings.Contains(err.Error(), "could not start the program confined: "+program+": permission denied") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestIsolationsThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, i := range map[string]agent.Isolation{
		"there is no workspace":      {Level: agent.IsolationConfined},
		"the wrapper has no command": {Level: agent.IsolationWrapper, Workspace: "/tmp"},
		`the agent's name ".."`:      {Level: agent.IsolationWrapper, Workspace: "/tmp", Wrapper: []string{"env"}, Agent: ".."},
		`unknown level "tight"`:      {Level: "tight", Workspace: "/tmp"},
	} {
		if _, err := command.NewIsolator(i); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// The wrapper gets the program's words after its own, and Kill runs after its end.
func TestWrapperIsFilled(t *testing.T) {
	t.Parallel()
	work := filepath.Join(t.TempDir(), "work")
	ended := filepath.Join(t.TempDir(), "ended")
	out, err := start(t, agent.Isolation{
		Level: agent.IsolationWrapper, Agent: "coder", Workspace: work,
		Wrapper: []string{"sh", "-c", `echo "$@"`, "sh", "{session}", "{workspace}", "{home}", "run-{run}"},
		Kill:    []string{"sh", "-c", `echo "$1" >"$0"`, ended, "run-{run}"},
	}, nil, "prog", "a b")
	expect.OK(t, err)
	const name = "043a718774c572bd8a25adbeb1bfcd5c"
	words := strings.Fields(out)
	dir := filepath.Join(work, name)
	expect.Equal(t, "words", strings.Join(words[:3], " "), fmt.Sprintf("%s %s %[2]s.home/coder", name, dir))
	expect.Equal(t, "the program", strings.Join(words[4:], " "), "prog a b")
	killed, err := os.ReadFile(ended)
	expect.OK(t, err)
	expect.Equal(t, "killed", strings.TrimSpace(string(killed)), words[3])
}

// Variables that an agent chose, as LD_PRELOAD, reach its program, and not the launcher or the wrapper,
// which are not confined yet.
func TestChosenVariablesReachOnlyTheProgram(t *testing.T) {
	t.Parallel()
	i := confined(t)
	isolator, err := command.NewIsolator(i)
	expect.OK(t, err)
	// A Go program that obeys it writes lines that begin with init to stderr.
	spec := command.Spec{Argv: []string{"sh", "-c", `echo "$GODEBUG"; exit 3`}, Chosen: []string{"GODEBUG=inittrace=1"}}
	out, err := startSpec(t, isolator, spec)
	expect.Equal(t, "confined", out, "inittrace=1\n")
	expect.Equal(t, "its error", err.Error(), "exit status 3")

	i.Level, i.Wrapper = agent.IsolationWrapper, []string{"sh", "-c", `echo "wrapper:$GODEBUG"; exec "$@"`, "sh"}
	isolator, err = command.NewIsolator(i)
	expect.OK(t, err)
	out, err = startSpec(t, isolator, spec)
	expect.Equal(t, "wrapped", out, "wrapper:\ninittrace=1\n")
	expect.Equal(t, "its error", err.Error(), "exit status 3")
}

// BenchmarkStart compares the start of a confined program with that of another.
func BenchmarkStart(b *testing.B) {
	i := confined(b)
	took := map[agent.IsolationLevel]time.Duration{}
	for b.Loop() {
		for _, level := range []agent.IsolationLevel{agent.IsolationNone, agent.IsolationConfined} {
			i.Level = level
			began := time.Now()
			if _, err := start(b, i, nil, "true"); err != nil {
				b.Fatal(err)
			}
			took[level] += time.Since(began)
		}
	}
	more := took[agent.IsolationConfined] - took[agent.IsolationNone]
	b.ReportMetric(float64(took[agent.IsolationConfined])/float64(took[agent.IsolationNone]), "confined/none")
	b.ReportMetric(float64(more.Microseconds())/float64(b.N)/1000, "ms-more")
}
