package protocol_test

import (
	"context"
	"errors"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A signal to the owner names the turn, and is not for a later one.
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
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
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
