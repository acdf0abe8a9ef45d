package exec

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/internal/protocol/lease"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// leased is a lease that is trusted for a while.
func leased(trusted time.Duration) *lease.Lease {
	return lease.New(context.Background(), time.Now(), trusted*10/9)
}

// renewed is a lease that is renewed until ctx ends.
func renewed(ctx context.Context, trusted time.Duration) *lease.Lease {
	held := leased(trusted)
	go func() {
		ticker := time.NewTicker(trusted / 6)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				held.Extend(time.Now(), trusted*10/9)
			case <-ctx.Done():
				return
			}
		}
	}()
	return held
}

// turn is a turn of the test's own, with text as its message. Its ID is in the environment of every
// process that the agent starts.
func turn(t *testing.T, text string) *agent.Turn {
	return &agent.Turn{
		Session: "agent:test", TranscriptID: "sid-1", Fence: 7, Attempt: 1,
		ID:       strings.ReplaceAll(t.Name(), "/", "-") + "-" + strconv.FormatInt(time.Now().UnixNano(), 36),
		Messages: []session.Message{{ID: "m1", Text: text}},
	}
}

// emitting is a turn with the function for its events.
func emitting(turn *agent.Turn, emit func(agent.Event)) *agent.Turn {
	t := *turn
	t.Host.Emit = emit
	return &t
}

func newAgent(t *testing.T, config Config) *Agent {
	t.Helper()
	a, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func shell(script string) []string { return []string{"sh", "-c", script} }

// family are the living processes with the turn's ID in their environment. Zombies have no
// environment.
func family(turnID string) (pids []string) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range environs {
		env, err := os.ReadFile(name)
		if err == nil && bytes.Contains(env, []byte("TURNSTILE_TURN_ID="+turnID+"\x00")) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// exists is true for zombies too.
func exists(pid int) bool { return syscall.Kill(pid, 0) == nil }

func parsePids(t *testing.T, line string) (pids []int) {
	t.Helper()
	for _, f := range strings.Fields(line) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("the agent said %q", line)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 7 {
		t.Fatalf("the agent said %q, want 7 pids", line)
	}
	return pids
}

func assertGone(t *testing.T, turnID string, pids []int) {
	t.Helper()
	for i, pid := range pids {
		if exists(pid) {
			t.Errorf("process %d (number %d of the family) is still there", pid, i)
		}
	}
	if left := family(turnID); len(left) > 0 {
		t.Errorf("processes of the agent are still alive: %v", left)
	}
}

// awaitGone waits until all pids are gone, and returns how long that took.
func awaitGone(t *testing.T, turnID string, pids []int) time.Duration {
	t.Helper()
	start := time.Now()
	for time.Since(start) < expect.Patience {
		alive := false
		for _, pid := range pids {
			alive = alive || exists(pid)
		}
		if !alive && len(family(turnID)) == 0 {
			return time.Since(start)
		}
		time.Sleep(5 * time.Millisecond) // there is no event for the end of another process's child
	}
	assertGone(t, turnID, pids)
	return time.Since(start)
}

func needLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs a subreaper and /proc: Linux only")
	}
}

func TestB86_InterruptEndsTheWholeFamily(t *testing.T) {
	t.Parallel()
	needLinux(t)
	for name, cause := range map[string]error{
		"stop":    errors.New("stopped by user"),
		"timeout": context.DeadlineExceeded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, Config{Command: roleCommand("tree"), Grace: 50 * time.Millisecond})
			ctx, cancel := context.WithCancelCause(t.Context())
			tn := turn(t, "")
			var pids []int
			_, err := a.Run(ctx, emitting(tn, func(e agent.Event) {
				pids = parsePids(t, e.Text)
				if n := len(family(tn.ID)); n < 6 {
					t.Errorf("only %d processes have the turn's id: the test would see nothing", n)
				}
				cancel(cause)
			}))
			if !errors.Is(err, cause) {
				t.Errorf("error %v, want the cause", err)
			}
			if pids == nil {
				t.Fatal("the agent said nothing")
			}
			assertGone(t, tn.ID, pids)
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Command: []string{"sleep", "1000"}})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := runText(ctx, a, turn(t, "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

// The descendants hold the agent's stdout open, which must not delay the end.
func TestB86_ExitLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	needLinux(t)
	a := newAgent(t, Config{Command: roleCommand("tree", "exit")})
	tn := turn(t, "")
	var pids []int
	if _, err := a.Run(t.Context(), emitting(tn, func(e agent.Event) { pids = parsePids(t, e.Text) })); err != nil {
		t.Error(err)
	}
	if pids == nil {
		t.Fatal("the agent said nothing")
	}
	assertGone(t, tn.ID, pids)
}

// The agent keeps forking while it is being killed, also into new sessions.
func TestB86_ForkingAgent(t *testing.T) {
	t.Parallel()
	needLinux(t)
	a := newAgent(t, Config{Grace: -1, Command: shell(
		`i=0; while [ $i -lt 500 ]; do (setsid sleep 1000 & sleep 1000 &); i=$((i+1)); [ $i = 20 ] && echo up; done`)})
	ctx, cancel := context.WithCancel(t.Context())
	tn := turn(t, "")
	if _, err := a.Run(ctx, emitting(tn, func(agent.Event) { cancel() })); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	assertGone(t, tn.ID, nil)
}

func TestB86_LostSessionKillsWithoutGrace(t *testing.T) {
	t.Parallel()
	needLinux(t)
	a := newAgent(t, Config{Command: roleCommand("tree"), Grace: time.Hour})
	ctx, cancel := context.WithCancelCause(t.Context())
	tn := turn(t, "")
	var pids []int
	_, err := a.Run(ctx, emitting(tn, func(e agent.Event) {
		pids = parsePids(t, e.Text)
		cancel(agent.ErrLeaseLost)
	}))
	if !errors.Is(err, agent.ErrLeaseLost) {
		t.Errorf("error %v", err)
	}
	assertGone(t, tn.ID, pids)
}

func TestB86_UnrenewedLeaseKills(t *testing.T) {
	t.Parallel()
	const ttl = 400 * time.Millisecond
	a := newAgent(t, Config{Command: shell(`trap "" INT TERM; sleep 1000`)})
	tn := turn(t, "")
	start := time.Now()
	tn.Host.Lease = leased(ttl)
	_, err := a.Run(t.Context(), tn)
	if !errors.Is(err, agent.ErrLeaseLost) || !errors.Is(err, agent.ErrRetryable) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(start); took < ttl-10*time.Millisecond {
		t.Errorf("it was killed after %s, the lease had %s", took, ttl)
	}
	assertGone(t, tn.ID, nil)
}

func TestB86_LeaseHoldsThroughTheGrace(t *testing.T) {
	t.Parallel()
	needLinux(t)
	a := newAgent(t, Config{Command: roleCommand("tree"), Grace: time.Hour})
	ctx, cancel := context.WithCancelCause(t.Context())
	tn := turn(t, "")
	owned, lose := context.WithCancel(t.Context())
	defer lose()
	tn.Host.Lease = renewed(owned, 2*time.Second)
	cause := errors.New("drained")
	var pids []int
	_, err := a.Run(ctx, emitting(tn, func(e agent.Event) {
		pids = parsePids(t, e.Text)
		lose() // in the grace, however long the agent took to start
		cancel(cause)
	}))
	if !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	assertGone(t, tn.ID, pids)
}

func TestRenewedLeaseLetsItRun(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a := newAgent(t, Config{Command: shell("sleep 1; echo well")})
	tn := turn(t, "")
	tn.Host.Lease = renewed(ctx, expect.Lease(600*time.Millisecond))
	reply, err := runText(ctx, a, tn)
	if err != nil || reply != "well" {
		t.Errorf("reply %q, error %v", reply, err)
	}
}
