package program

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"turnstile/test/expect"
	"turnstile/test/watched"
)

// Process is a running program. It is killed at the test's end. If the test failed, its output is
// logged.
type Process struct {
	*exec.Cmd
	Output *watched.Output

	t     testing.TB
	ended chan struct{}
}

// Command makes a command with the settings, and the variables that every program needs, as its
// environment.
func Command(t testing.TB, path string, settings []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), path, args...) // it ends with Process
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, settings...)
	return cmd
}

// Start starts a command. Its stdout and stderr go to Output, unless the command says otherwise.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	expect.NotQuick(t)
	p := &Process{Cmd: cmd, Output: watched.NewOutput(), t: t, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.Output
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Output
	}
	cmd.WaitDelay = time.Second // a child may outlive it and hold its stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // the exit code tells
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("process %d wrote:\n%s", cmd.Process.Pid, p.Output)
		}
	})
	return p
}

// Signal sends a signal to the process, which may be gone.
func (p *Process) Signal(sig syscall.Signal) { _ = p.Process.Signal(sig) }

// Kill ends the process, also a suspended one, and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// ExitCode waits for the process to end by itself.
func (p *Process) ExitCode() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(expect.Patience):
		p.t.Fatalf("process %d does not end", p.Process.Pid)
	}
	return p.ProcessState.ExitCode()
}
