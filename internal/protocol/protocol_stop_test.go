package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func TestStopOfAnIdleSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	reply, err := b.client.Command(b.ctx, key, "/stop", "")
	expect.OK(t, err)
	if reply != "Nothing is running." {
		t.Errorf("reply: %q", reply)
	}
	b.say("alone")
	b.answers("/stop", "Nothing is running. 1 waiting message was archived; /resume reruns it.")
	b.answers("/status", "1 message is archived")
	b.answers("/resume", "Rerunning 1 message.")
	b.say("together")
	b.answers("/stop", "Nothing is running. 2 waiting messages were archived; /resume reruns them.")
	b.answers("/status", "2 messages are archived")
	b.sayAll("a", "b")
	s, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "found", s, session.Stopped{Phase: session.PhaseIdle, Dropped: 2})
	expect.Equal(t, "a", b.outcome("a").Status, session.StatusStopped)
	b.claimNothing("all was stopped")
	b.say("c")
	expect.List(t, "runs", b.drain(), "c")
}

func TestStopOfARunningTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	b.sayAll("b", "c")
	s, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "found", s, session.Stopped{Phase: "running", Fence: h.Turn().Fence, Dropped: 2})
	b.say("d")
	if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; !errors.Is(r.Requested, sq.ErrStopRequested) || r.Fence != h.Turn().Fence {
		t.Errorf("renewal: %+v", r)
	}
	if err := h.Requeue(b.ctx, "drain"); !errors.Is(err, sq.ErrStopRequested) {
		t.Errorf("requeue: %v", err)
	}
	more, err := h.Finish(b.ctx, sq.End{Status: session.StatusStopped, Error: "stopped by user"})
	expect.OK(t, err)
	expect.Equal(t, "goes on", more, true)
	expect.Equal(t, "with what came afterwards", h.Turn().Message.ID, "d")
	if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; r.Requested != nil {
		t.Errorf("the next turn is asked %v", r.Requested)
	}
	expect.OK(t, h.Promote(b.ctx))
}

// A stop is archived in batches, and what comes meanwhile is not meant.
func TestStopInBatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 1203
	b.say("now")
	b.start()
	for i := range n {
		b.enqueue(fmt.Sprint("m", i))
	}
	calls := 0
	b.rdb.AddHook(behind(called("stop"), func() {
		if calls++; calls == 1 {
			b.enqueue("meanwhile")
		}
	}))
	s, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "dropped", s.Dropped, n)
	expect.Equal(t, "calls", calls, 3)
	expect.List(t, "the line", b.waiting(), "meanwhile")
	expect.Equal(t, "archived", b.info().Archived, n)
	expect.Equal(t, "last", b.outcome(fmt.Sprint("m", n-1)).Status, session.StatusStopped)
}

// Whoever waits for a stopped message hears of it.
func TestStoppedWhileWaiting(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.start()
	b.say("b")
	got := b.waitFor("b")
	_, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "status", (<-got).Status, session.StatusStopped)
}

// waitFor waits for a message's end in the background, from now on.
func (b *bench) waitFor(id string) <-chan session.Outcome {
	got := make(chan session.Outcome, 1)
	go func() {
		defer close(got)
		o, err := b.client.Wait(b.ctx, key, id)
		if err != nil && !errors.Is(err, context.Canceled) {
			b.Errorf("wait for %s: %v", id, err)
		}
		got <- o
	}()
	return got
}

// The signals that owners hear: the turn is named, a later one is not meant.
func TestSignals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	heard := make(chan sq.Signal, 16)
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.c.Signals(ctx, func() { close(ready) }, func(s sq.Signal) { heard <- s }) }()
	<-ready
	next := func(taskID string) sq.Signal {
		t.Helper()
		for s := range heard {
			if s.TaskID == "" || s.TaskID == taskID { // other tests cancel tasks too
				return s
			}
		}
		return sq.Signal{}
	}
	b.say("a")
	h := b.start()
	b.say("b", session.ModeInterrupt)
	s := next("")
	if !errors.Is(s.Requested, sq.ErrInterruptRequested) || s.Token != h.Token() || s.Fence != h.Turn().Fence {
		t.Errorf("interrupt: %+v", s)
	}
	_, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	s = next("")
	if !errors.Is(s.Requested, sq.ErrStopRequested) || s.Token != h.Token() || s.Fence != h.Turn().Fence {
		t.Errorf("stop: %+v", s)
	}
	expect.OK(t, b.inspector().CancelProcessing(b.task("a")))
	s = next(b.task("a"))
	fence, runs := h.Runs(s.TaskID)
	if !errors.Is(s.Requested, sq.ErrStopRequested) || !runs || fence != h.Turn().Fence {
		t.Errorf("asynqmon's Cancel: %+v", s)
	}
	cancel()
	expect.OK(t, <-ended)
}
