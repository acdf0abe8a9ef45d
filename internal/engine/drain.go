package engine

import (
	"context"
	"strings"
	"sync"
	"time"

	"turnstile/internal/protocol"
)

// Reason is why a worker drains.
type Reason string

// The reasons of a drain, as the events of requeued turns carry them.
const (
	ReasonShutdown Reason = "shutdown_timeout"
	ReasonRestart  Reason = "restart_timeout"
)

// Name is the reason as it is told before any time is over: shutdown or restart.
func (r Reason) Name() string { return strings.TrimSuffix(string(r), "_timeout") }

// reasonLease is why a turn is given back whose agent was killed by its guardian.
const reasonLease Reason = "lease_lost"

// notice is what the sessions that are active when a drain begins are told.
func (w *Worker) notice(r Reason) string {
	what := "shutting down"
	if r == ReasonRestart {
		what = "restarting"
	}
	if w.opts.Ephemeral {
		return "This worker is " + what + ", and nothing is kept. If the current task does not end in time it will be cut off."
	}
	return "This worker is " + what + ". If the current task does not end in time it will be interrupted, and another worker will try to resume it."
}

// drainError is the cause with which a drain ends turns.
type drainError struct{ reason Reason }

func (e drainError) Error() string { return errDrain.Error() + ": " + string(e.reason) }
func (e drainError) Unwrap() error { return errDrain }

// Drain ends the worker: it claims nothing more, lets the running turns go on for
// DrainTimeout, then interrupts those that still run and puts their messages back
// at the head of the line, where another worker takes them at once. It returns
// when nothing of this worker is left. When ctx ends the rest of the wait is cut
// short; the interrupts still take the agents' grace. A Redis that hangs does not
// put them off. DrainProgress tells how far it is, and so does the log.
//
// A second call waits for the first. Drain before Start is legal.
func (w *Worker) Drain(ctx context.Context, reason Reason) {
	w.mu.Lock()
	first, active, started := !w.ended, w.active(), w.started
	w.ended = true
	if first {
		w.drain = drain{reason: reason, until: time.Now().Add(w.opts.DrainTimeout), ends: map[outcome]int{}}
		close(w.draining)
		if !started {
			close(w.popping)
		}
	}
	w.mu.Unlock()
	if !first {
		<-w.ctx.Done()
		w.loops.Wait()
		return
	}
	if started {
		<-w.begun // it gives up now, or its loops end by themselves
	}
	w.log.Info("draining", "reason", reason.Name(), "running", w.Running(), "timeout", w.opts.DrainTimeout)
	idle := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { w.report(idle) })
	if w.maintenance != nil {
		beside.Go(w.maintenance.stop) // takes its time: beside the turns, not behind them
	}
	for _, s := range active { // those whose claim is under way hear it at their begin
		s.notify(w.notice(reason))
	}
	go func() {
		<-w.popping
		w.claiming.Wait()
		w.served.Wait()
		close(idle)
	}()
	w.await(ctx, idle)
	w.cutOff(reason)
	<-idle
	w.warm.end()
	beside.Wait()
	if w.maintenance != nil {
		w.maintenance.end()
	}
	w.cancel()
	w.loops.Wait()
	w.log.Info("drained", "reason", reason.Name(), "finished", w.drain.ends[outcomeFinished],
		"given_back", w.drain.ends[outcomeGivenBack], "lost", w.drain.ends[outcomeLost])
}

// await waits until no turn runs any more, the drain's time is over, or ctx ends.
func (w *Worker) await(ctx context.Context, idle <-chan struct{}) {
	over := time.NewTimer(w.DrainProgress().Left)
	defer over.Stop()
	select {
	case <-idle:
	case <-over.C:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain.until, w.drain.over = time.Now(), true
}

// markPatience is how long the interrupts wait for the marks. Turns that are not
// marked by then are marked when they are given back.
const markPatience = time.Second

// cutOff ends the turns that still run now. Each is marked to be resumed before
// it is interrupted; one that has no agent yet is kept from starting instead.
func (w *Worker) cutOff(reason Reason) {
	sessions := w.snapshot()
	holds := make([]*protocol.Claim, len(sessions))
	for i, s := range sessions {
		holds[i] = s.hold
	}
	marked := make(chan struct{})
	w.loop(func() {
		defer close(marked)
		for i, m := range w.queue.Mark(w.ctx, holds, string(reason)) {
			if m.Err != nil && holds[i].Lease().Held() == nil {
				sessions[i].log.Debug("no mark: the turn has ended, or its requeue will mark it", "error", m.Err)
			}
		}
	})
	select {
	case <-marked:
	case <-time.After(markPatience):
		w.log.Warn("turns are interrupted before they are marked: Redis does not answer")
	}
	for _, s := range sessions {
		s.drain(drainError{reason})
	}
}
