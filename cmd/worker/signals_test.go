package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/watched"
)

func sendSignals(t *testing.T, p *os.Process, signals ...os.Signal) {
	t.Helper()
	for _, s := range signals {
		if err := p.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
}

// givenBack checks that a turn of session a was requeued, with the reason.
func givenBack(t *testing.T, c *actors.Client, id, reason string) {
	t.Helper()
	if e := untilEvent(t, c, "a", id, session.EventTurnRequeued); e.Reason != reason {
		t.Errorf("the turn was given back because of %q, want %q", e.Reason, reason)
	}
	if info, err := c.Session("a").Info(limited(t)); err != nil || info.Phase != session.PhaseParked || info.Waiting != 0 {
		t.Errorf("after the drain: %+v, %v", info, err)
	}
}

// The first signal drains. The events and the exit code show the kind of end.
func TestSignalDrains(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal os.Signal
		args   []string
		reason string
		code   int
	}{
		"SIGTERM":      {syscall.SIGTERM, nil, "shutdown_timeout", exitOK},
		"SIGINT":       {syscall.SIGINT, nil, "shutdown_timeout", exitOK},
		"SIGHUP":       {syscall.SIGHUP, nil, "restart_timeout", exitRestart},
		"SIGHUP --dev": {syscall.SIGHUP, []string{"--dev"}, "shutdown_timeout", exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, client := newRedis(t)
			cmd, s := process(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo", "TURNSTILE_DRAIN_TIMEOUT=0", "TURNSTILE_LOG_LEVEL=info"}, c.args...)
			id := send(t, client, "a", "sleep=1h hello")
			untilEvent(t, client, "a", id, session.EventTurnStarted)
			sendSignals(t, cmd.Process, c.signal)
			exits(t, cmd, s, c.code)
			givenBack(t, client, id, c.reason)
			s.Await(t, "msg=drained")
			s.Await(t, "reason="+strings.TrimSuffix(c.reason, "_timeout")+" finished=0 requeued=1 lost=0\n")
			if strings.Contains(s.String(), "\r") || strings.Contains(s.String(), "draining: ") {
				t.Errorf("a countdown without a terminal: %q", s)
			}
		})
	}
}

// A signal that was ignored at the start stays ignored, as nohup and scripts expect. Agents get it.
func TestIgnoredSignals(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]os.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, client := newRedis(t)
			cmd := newCommand(t, []string{
				"REDIS_URL=" + url, "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=sh -c 'kill -" + name + " $$; echo deaf'",
			})
			cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `trap "" ` + name + `; exec "$0"`, cmd.Path}
			s := started(t, cmd)
			s.Await(t, "worker started")
			sendSignals(t, cmd.Process, signal)
			id := send(t, client, "a", "hello")
			if end, err := client.Session("a").Wait(limited(t), id); err != nil || !strings.Contains(end.Why(), "killed by signal") {
				t.Errorf("the agent's turn: %+v, %v", end, err)
			}
			sendSignals(t, cmd.Process, syscall.SIGTERM)
			exits(t, cmd, s, exitOK)
			s.Await(t, "reason=shutdown")
		})
	}
}

// The second signal interrupts the turns at once. The kind of end stays that of the first.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second os.Signal
		reason        string
		code          int
	}{
		"SIGTERM twice":       {syscall.SIGTERM, syscall.SIGTERM, "shutdown_timeout", exitOK},
		"SIGHUP twice":        {syscall.SIGHUP, syscall.SIGHUP, "restart_timeout", exitRestart},
		"SIGHUP then SIGTERM": {syscall.SIGHUP, syscall.SIGTERM, "restart_timeout", exitRestart},
		"SIGTERM then SIGHUP": {syscall.SIGTERM, syscall.SIGHUP, "shutdown_timeout", exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, client := newRedis(t)
			cmd, s := process(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo", "TURNSTILE_DRAIN_TIMEOUT=1h"})
			id := send(t, client, "a", "sleep=1h hello")
			untilEvent(t, client, "a", id, session.EventTurnStarted)
			sendSignals(t, cmd.Process, c.first)
			untilEvent(t, client, "a", id, session.EventNotice)
			sendSignals(t, cmd.Process, c.second)
			exits(t, cmd, s, c.code)
			s.Await(t, "the drain is cut short")
			givenBack(t, client, id, c.reason)
		})
	}
}

// A signal ends a worker that waits for its Redis, too.
func TestSignalBeforeTheStart(t *testing.T) {
	t.Parallel()
	for signal, code := range map[os.Signal]int{syscall.SIGTERM: exitOK, syscall.SIGHUP: exitRestart} {
		cmd, s := process(t, []string{"REDIS_URL=redis://" + freeAddr(t), "TURNSTILE_AGENT=echo"})
		s.Await(t, "Redis is not ready yet")
		sendSignals(t, cmd.Process, signal)
		exits(t, cmd, s, code)
	}
}

// The third signal ends the worker at once, with an agent that ignores interrupts.
func TestThirdSignal(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	cmd, s := process(t, []string{
		"REDIS_URL=" + url, "TURNSTILE_AGENT=exec", "TURNSTILE_DRAIN_TIMEOUT=1h", "TURNSTILE_INTERRUPT_GRACE=1h",
		`TURNSTILE_AGENT_COMMAND=sh -c 'trap "echo interrupted" INT; echo pid $$ .; while :; do sleep 1; done'`,
	})
	id := send(t, c, "a", "hello")
	child, err := strconv.Atoi(strings.Fields(untilText(t, c, "a", id, " ."))[1])
	if err != nil {
		t.Fatal(err)
	}
	sendSignals(t, cmd.Process, syscall.SIGTERM)
	s.Await(t, "msg=draining")
	sendSignals(t, cmd.Process, syscall.SIGTERM)
	untilText(t, c, "a", id, "interrupted")
	sendSignals(t, cmd.Process, syscall.SIGTERM)
	exits(t, cmd, s, exitOther)
	s.Await(t, "worker: ended at once")
	gone(t, child)
}

// untilText follows a message until its reply has a part, and returns the reply so far.
func untilText(t *testing.T, c *actors.Client, key, id, part string) (text string) {
	t.Helper()
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	_, _ = actors.Follow(ctx, c.Session(key), id, func(e session.Event) { // ends with ctx
		if e.Type == session.EventText {
			if text += e.Text; strings.Contains(text, part) {
				cancel()
			}
		}
	})
	if !strings.Contains(text, part) {
		t.Fatalf("%q was never written: %q", part, text)
	}
	return text
}

// gone waits for the end of a process that is not a child of this one.
func gone(t *testing.T, pid int) {
	t.Helper()
	expect.Soon(t, fmt.Sprint("the end of process ", pid), func() bool { return syscall.Kill(pid, 0) != nil })
}

// The worker continues its drain when the reader of its log ends, as in `worker 2>&1 | tee log`
// when Ctrl-C ends tee too.
func TestLogReaderIsGone(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := newCommand(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo"})
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_ = w.Close()
	id := send(t, c, "a", "sleep=500ms hello")
	untilEvent(t, c, "a", id, session.EventTurnStarted)
	_ = r.Close()
	sendSignals(t, cmd.Process, syscall.SIGINT)
	exits(t, cmd, watched.NewOutput(), exitOK)
	if end, err := c.Session("a").Wait(limited(t), id); err != nil || end.Reply != "echo: hello" {
		t.Errorf("the turn that was under way: %+v, %v", end, err)
	}
}

func TestDrainLine(t *testing.T) {
	t.Parallel()
	if got := drainLine(worker.Status{Running: 3}, false); got != "" {
		t.Errorf("before the drain: %q", got)
	}
	for want, c := range map[string]struct {
		running int
		left    time.Duration
		cut     bool
	}{
		"draining: 3 turns running, 42s left (Ctrl-C again: interrupt them now)":    {3, 41*time.Second + time.Millisecond, false},
		"draining: 1 turn running, 1m0s left (Ctrl-C again: interrupt them now)":    {1, time.Minute, false},
		"draining: 1 turn running, 1s left (Ctrl-C again: interrupt them now)":      {1, 1, false},
		"draining: 2 turns running, being interrupted (Ctrl-C twice: end at once)":  {2, 0, false},
		"draining: 10 turns running, being interrupted (Ctrl-C again: end at once)": {10, time.Second, true},
		"draining: no turn runs any more":                                           {0, time.Minute, false},
	} {
		if got := drainLine(worker.Status{Draining: true, Running: c.running, Left: c.left}, c.cut); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
