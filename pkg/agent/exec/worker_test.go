package exec

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/test/expect"
)

// startWorker starts a process that runs the tree agent, and waits until the whole tree runs.
func startWorker(t *testing.T, turnID, ttl string) (worker *os.Process, out *bufio.Reader, pids []int) {
	t.Helper()
	argv := roleCommand("worker", turnID, ttl)
	cmd := osexec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, stdout)
		_ = cmd.Wait()
	})
	out = bufio.NewReader(stdout)
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process, out, parsePids(t, line)
}

func TestB86_KilledWorker(t *testing.T) {
	t.Parallel()
	needLinux(t)
	tn := turn(t, "")
	worker, _, pids := startWorker(t, tn.ID, "1h")
	if err := worker.Kill(); err != nil {
		t.Fatal(err)
	}
	// Init reaps the guardian itself, at another time.
	took := awaitGone(t, tn.ID, pids[1:])
	t.Logf("gone after %s", took)
}

func TestB86_StoppedWorker(t *testing.T) {
	t.Parallel()
	needLinux(t)
	tn := turn(t, "")
	lease := expect.Lease(1500 * time.Millisecond)
	worker, out, pids := startWorker(t, tn.ID, lease.String())
	if err := worker.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	// The guardian itself is a zombie until its parent runs again.
	awaitGone(t, tn.ID, pids[1:])
	if took := time.Since(stopped); took > lease+expect.Lease(2*time.Second) {
		t.Errorf("gone after %s, a lease of %s and two seconds of a busy machine were allowed", took, lease)
	}
	if err := worker.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line, err := out.ReadString('\n')
	if err != nil || !strings.Contains(line, agent.ErrLeaseLost.Error()) {
		t.Errorf("the worker then said %q, %v", line, err)
	}
	assertGone(t, tn.ID, pids)
}

// A worker that is suspended for less than its lease loses nothing.
func TestBrieflyStoppedWorker(t *testing.T) {
	t.Parallel()
	needLinux(t)
	tn := turn(t, "")
	worker, _, pids := startWorker(t, tn.ID, "1h")
	if err := worker.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := worker.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		if !exists(pid) {
			t.Errorf("process %d is gone", pid)
		}
	}
	if err := worker.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, tn.ID, pids[1:])
}

// The guardian ignores signals that go to a whole service or terminal.
func TestGuardianOutlivesSignals(t *testing.T) {
	t.Parallel()
	needLinux(t)
	a := newAgent(t, Config{Command: shell(`for s in INT TERM HUP QUIT; do kill -$s $PPID; done; echo still here`)})
	reply, err := runText(t.Context(), a, turn(t, ""))
	if err != nil || reply != "still here" {
		t.Errorf("reply %q, error %v", reply, err)
	}
}

func TestStoppedGuardianIsWoken(t *testing.T) {
	t.Parallel()
	needLinux(t)
	a := newAgent(t, Config{Command: shell(`kill -STOP $PPID; echo stopped; sleep 1000`), Grace: -1})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := a.Run(ctx, emitting(turn(t, ""), func(agent.Event) { cancel() }))
	if err == nil {
		t.Error("no error")
	}
}

func TestKilledGuardianTakesTheAgentAlong(t *testing.T) {
	t.Parallel()
	needLinux(t)
	a := newAgent(t, Config{Command: shell(`trap "" INT TERM; sleep 1000 & kill -KILL $PPID; wait`)})
	tn := turn(t, "")
	_, err := a.Run(t.Context(), tn)
	if err == nil || !errors.Is(err, agent.ErrRetryable) || !strings.Contains(err.Error(), "guardian") {
		t.Errorf("error %v", err)
	}
	assertGone(t, tn.ID, nil)
}
