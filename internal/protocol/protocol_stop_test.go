package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func TestStopOfAnIdleSession(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	reply, err := b.Client.Command(b.Ctx, actors.Key, "/stop", "")
	expect.OK(t, err)
	if reply != "Nothing is running." {
		t.Errorf("reply: %q", reply)
	}
	b.Say("alone")
	b.Replies("/stop", "Nothing is running. 1 waiting message was archived; /resume reruns it.")
	b.Replies("/status", "1 message is archived")
	b.Replies("/resume", "Rerunning 1 message.")
	b.Say("together")
	b.Replies("/stop", "Nothing is running. 2 waiting messages were archived; /resume reruns them.")
	b.Replies("/status", "2 messages are archived")
	b.SayAll("a", "b")
	s, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "found", s, session.Stopped{Phase: session.PhaseIdle, Dropped: 2})
	expect.Equal(t, "a", b.Outcome("a").Status, session.StatusStopped)
	b.ClaimNothing("all was stopped")
	b.Say("c")
	expect.List(t, "runs", b.Drain(), "c")
}

func TestStopOfARunningTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	b.SayAll("b", "c")
	s, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "found", s, session.Stopped{Phase: "running", Fence: h.Turn().Fence, Dropped: 2})
	b.Say("d")
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; !errors.Is(r.Requested, protocol.ErrStopRequested) || r.Fence != h.Turn().Fence {
		t.Errorf("renewal: %+v", r)
	}
	if err := h.Requeue(b.Ctx, "drain"); !errors.Is(err, protocol.ErrStopRequested) {
		t.Errorf("requeue: %v", err)
	}
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusStopped, Error: "stopped by user"})
	expect.OK(t, err)
	expect.Equal(t, "goes on", more, true)
	expect.Equal(t, "with what came afterwards", h.Turn().Message.ID, "d")
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("the next turn is asked %v", r.Requested)
	}
	expect.OK(t, h.Promote(b.Ctx))
}

// A stop is archived in batches, and what comes meanwhile is not meant.
func TestStopInBatches(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	const n = 1203
	b.Say("now")
	b.Start()
	for i := range n {
		b.Enqueue(fmt.Sprint("m", i))
	}
	calls := 0
	b.Redis.AddHook(actors.Behind(actors.Script("stop"), func() {
		if calls++; calls == 1 {
			b.Enqueue("meanwhile")
		}
	}))
	s, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "dropped", s.Dropped, n)
	expect.Equal(t, "calls", calls, 3)
	expect.List(t, "the line", b.Waiting(), "meanwhile")
	expect.Equal(t, "archived", b.Info().Archived, n)
	expect.Equal(t, "last", b.Outcome(fmt.Sprint("m", n-1)).Status, session.StatusStopped)
}

// Whoever waits for a stopped message hears of it.
func TestStoppedWhileWaiting(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Start()
	b.Say("b")
	got := b.WaitFor("b")
	_, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "status", (<-got).Status, session.StatusStopped)
}

// The signals that owners hear: the turn is named, a later one is not meant.
func TestSignals(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	heard := make(chan protocol.Signal, 16)
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(b.Ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Worker.Signals(ctx, func() { close(ready) }, func(s protocol.Signal) { heard <- s })
	}()
	<-ready
	next := func(taskID string) protocol.Signal {
		t.Helper()
		for s := range heard {
			if s.TaskID == "" || s.TaskID == taskID { // other tests cancel tasks too
				return s
			}
		}
		return protocol.Signal{}
	}
	b.Say("a")
	h := b.Start()
	b.Say("b", session.ModeInterrupt)
	s := next("")
	if !errors.Is(s.Requested, protocol.ErrInterruptRequested) || s.Token != h.Token() || s.Fence != h.Turn().Fence {
		t.Errorf("interrupt: %+v", s)
	}
	_, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	s = next("")
	if !errors.Is(s.Requested, protocol.ErrStopRequested) || s.Token != h.Token() || s.Fence != h.Turn().Fence {
		t.Errorf("stop: %+v", s)
	}
	expect.OK(t, b.Inspector().CancelProcessing(b.Task("a")))
	s = next(b.Task("a"))
	fence, runs := h.Runs(s.TaskID)
	if !errors.Is(s.Requested, protocol.ErrStopRequested) || !runs || fence != h.Turn().Fence {
		t.Errorf("asynqmon's Cancel: %+v", s)
	}
	cancel()
	expect.OK(t, <-ended)
}
