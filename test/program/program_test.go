package program_test

import (
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"turnstile/test/expect"
	"turnstile/test/program"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBuildKeepsTheProgram(t *testing.T) {
	t.Parallel()
	path := program.Build(t, "turnstile/examples/custom-agent")
	expect.Equal(t, "path of the second", program.Build(t, "turnstile/examples/custom-agent"), path)
	out, err := program.Command(t, path, []string{"REDIS_URL=nonsense"}).CombinedOutput()
	if err == nil {
		t.Errorf("it ran without a Redis: %s", out)
	}
}

func TestOutputIsAwaited(t *testing.T) {
	t.Parallel()
	p := program.Start(t, exec.Command("sh", "-c", "echo one; echo two >&2; sleep 1000"))
	expect.Equal(t, "behind it", p.Output.Await(t, "one\n"+"tw"), "o\n")
}

func TestProcessEnds(t *testing.T) {
	t.Parallel()
	p := program.Start(t, exec.Command("sh", "-c", "exit 7"))
	expect.Equal(t, "exit code", p.ExitCode(), 7)
	p.Signal(syscall.SIGTERM)
	p.Kill()

	p = program.Start(t, exec.Command("sleep", "1000"))
	p.Signal(syscall.SIGSTOP)
	p.Kill()
	expect.Equal(t, "exit code of a killed one", p.ExitCode(), -1)
}
