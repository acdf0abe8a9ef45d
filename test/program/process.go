package program

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"turnstile/test/expect"
)

// Process is a program at work. It is killed at the test's end, and if the test
// has failed it says what it wrote.
type Process struct {
	*exec.Cmd
	Output *Output

	t     testing.TB
	ended chan struct{}
}

// Command makes a command whose environment is settings and what every program
// needs.
func Command(t testing.TB, path string, settings []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), path, args...) // it ends with Process
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, settings...)
	return cmd
}

// Start starts a command. What it writes goes to Output, stderr too, unless the
// command says otherwise.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, Output: NewOutput(), t: t, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.Output
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Output
	}
	cmd.WaitDelay = time.Second // a child of it may live on, and have its stdout
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

// Signal sends a signal to the process, which may have ended.
func (p *Process) Signal(sig syscall.Signal) { _ = p.Process.Signal(sig) }

// Kill ends the process, a stopped one too, and returns when it has ended.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

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

// Output is what a program writes, while it runs.
type Output struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed at the next Write
}

// NewOutput returns an empty Output.
func NewOutput() *Output { return &Output{changed: make(chan struct{})} }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Await waits until part was written, and returns what came behind it so far.
func (o *Output) Await(t testing.TB, part string) string {
	t.Helper()
	end := time.NewTimer(expect.Patience)
	defer end.Stop()
	for {
		o.mu.Lock()
		text, changed := o.text.String(), o.changed
		o.mu.Unlock()
		if _, behind, ok := strings.Cut(text, part); ok {
			return behind
		}
		select {
		case <-changed:
		case <-end.C:
			t.Fatalf("%q was never written:\n%s", part, text)
		}
	}
}
