package worker

import (
	"context"
	"time"
)

// Reason is why a worker drains.
type Reason string

// The reasons of a drain, as the events of requeued turns carry them.
const (
	ReasonShutdown Reason = "shutdown_timeout"
	ReasonRestart  Reason = "restart_timeout"
)

// reasonLease is why a turn is given back whose agent was killed by its guardian.
const reasonLease Reason = "lease_lost"

// notice is what the sessions that are active when a drain begins are told.
func (r Reason) notice() string {
	what := "shutting down"
	if r == ReasonRestart {
		what = "restarting"
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
// short; the interrupts still take the agents' grace.
//
// A second call waits for the first. Drain before Start is legal.
func (w *Worker) Drain(ctx context.Context, reason Reason) {
	w.mu.Lock()
	first := !w.ended
	w.ended = true
	if first {
		close(w.draining)
		if !w.started {
			close(w.popping)
		}
	}
	w.mu.Unlock()
	if !first {
		<-w.ctx.Done()
		w.loops.Wait()
		return
	}
	w.log.Info("draining", "reason", reason, "running", w.Running(), "timeout", w.opts.DrainTimeout)
	quiet := make(chan struct{})
	go func() {
		defer close(quiet)
		if w.maintenance != nil {
			w.maintenance.stop() // takes its time: beside the turns, not behind them
		}
	}()
	<-w.popping
	for _, s := range w.snapshot() {
		s.notify(reason.notice())
	}
	idle := make(chan struct{})
	go func() {
		w.served.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	case <-time.After(w.opts.DrainTimeout):
	}
	for _, s := range w.snapshot() {
		s.drain(drainError{reason})
	}
	<-idle
	w.warm.end()
	<-quiet
	w.cancel()
	w.loops.Wait()
	w.log.Info("drained")
}
