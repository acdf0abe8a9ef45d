package connections

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"turnstile/test/expect"
	"turnstile/test/program"
)

func TestMain(m *testing.M) {
	expect.AtOnce(4)
	goleak.VerifyTestMain(m)
}

// Exit codes that both programs share.
const (
	exitOK    = 0
	exitOther = 1
	exitUsage = 2
)

// result is the result of one call of a program.
type result struct {
	code     int
	out, err string
}

// call runs a program of cmd with settings to its end.
func call(t *testing.T, settings []string, name string, args ...string) result {
	t.Helper()
	cmd := program.Command(t, program.Build(t, "turnstile/cmd/"+name), settings, args...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
}

// lines are those of stderr.
func (r result) lines() []string { return strings.Split(strings.TrimSuffix(r.err, "\n"), "\n") }
