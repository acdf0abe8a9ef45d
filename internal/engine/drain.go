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

// Name is the reason before the drain's time is up: shutdown or restart.
func (r Reason) Name() string { return strings.TrimSuffix(string(r), "_timeout") }

// notice is what the sessions that run when a drain begins are told.
func (o Options) notice(r Reason) string {
	what := "shutting down"
	if r == ReasonRestart {
		what = "restarting"
	}
	if o.Ephemeral {
		return "This worker is " + what + ", and nothing is kept. If the current task does not end in time it will be cut off."
	}
	return "This worker is " + what + ". If the current task does not end in time it will be interrupted, and another worker will try to resume it."
}

// Drain ends the worker: it claims nothing more, lets the running turns go on for
// DrainTimeout, then interrupts those that still run and puts their messages back
// at the head of the line, where another worker takes them at once. It returns
// when nothing of this worker is left. The end of ctx ends the wait for the turns; the
// interrupts still take the agents' grace. A Redis that hangs does not delay them.
// DrainProgress and the log tell how far it is.
//
// A second call waits for the first. Drain before Start is legal.
func (w *Worker) Drain(ctx context.Context, reason Reason) {
	w.mu.Lock()
	was := w.state
	w.state = drained
	w.mu.Unlock()
	if was == drained {
		<-w.life.work.Done()
		w.life.stop()
		return
	}
	running := w.roster.beginDrain(reason, w.opts.DrainTimeout)
	w.dispatcher.close()
	w.life.endIntake()
	if was == started {
		<-w.begun // Start gives up now, or its actors end by themselves
	}
	w.log.Info("draining", "reason", reason.Name(), "running", w.Running(), "timeout", w.opts.DrainTimeout)
	idle := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { w.reportDrain(idle) })
	if w.jobs != nil {
		beside.Go(w.jobs.stop) // takes its time: beside the turns, not behind them
	}
	for _, s := range running { // those whose claim is on its way hear it when they join
		s.notify(w.opts.notice(reason))
	}
	go func() {
		w.dispatcher.wait()
		close(idle)
	}()
	w.letRun(ctx, idle)
	w.interrupt(reason)
	<-idle
	w.pool.end()
	beside.Wait()
	if w.jobs != nil {
		w.jobs.end()
	}
	w.life.stop()
	ends := w.roster.drain.ends
	w.log.Info("drained", "reason", reason.Name(), "finished", ends[outcomeFinished],
		"given_back", ends[outcomeGivenBack], "lost", ends[outcomeLost])
}

// letRun waits until no turn runs any more, the drain's time is over, or ctx ends.
func (w *Worker) letRun(ctx context.Context, idle <-chan struct{}) {
	over := time.NewTimer(w.DrainProgress().Left)
	defer over.Stop()
	select {
	case <-idle:
	case <-over.C:
	case <-ctx.Done():
	}
	w.roster.timeIsUp()
}

// markPatience is how long the interrupts wait for the marks. Turns that are not
// marked by then are marked when they are given back.
const markPatience = time.Second

// interrupt ends the turns that still run now. Each is marked to be resumed before
// it is interrupted; one that has no agent yet is kept from starting instead.
func (w *Worker) interrupt(reason Reason) {
	sessions := w.roster.all()
	claims := make([]*protocol.Claim, len(sessions))
	for i, s := range sessions {
		claims[i] = s.claim
	}
	marked := make(chan struct{})
	w.life.run(func() {
		defer close(marked)
		for i, m := range w.queue.Mark(w.life.work, claims, string(reason)) {
			if m.Err != nil && claims[i].Lease().Held() == nil {
				sessions[i].log.Debug("no mark: the turn has ended, or its requeue will mark it", "error", m.Err)
			}
		}
	})
	select {
	case <-marked:
	case <-time.After(markPatience):
		w.log.Warn("turns are interrupted before they are marked: Redis does not reply")
	}
	for _, s := range sessions {
		s.interrupt(drainError{reason})
	}
}

// DrainProgress is how far a drain is.
type DrainProgress struct {
	// Draining is true from the moment that Drain was called, for good.
	Draining bool

	// Reason is that of the first call of Drain; "" before it.
	Reason Reason

	// Running counts the sessions whose turns have not ended, as Worker.Running does.
	Running int

	// Left is how long they may go on before they are interrupted. 0 in a drain:
	// those that still run are being interrupted.
	Left time.Duration
}

// DrainProgress returns how far a drain is. It costs no more than a lock.
func (w *Worker) DrainProgress() DrainProgress {
	r := w.roster
	r.mu.Lock()
	defer r.mu.Unlock()
	p := DrainProgress{Draining: r.drain.phase != notDraining, Running: len(r.sessions)}
	if p.Draining {
		p.Reason, p.Left = r.drain.reason, max(0, time.Until(r.drain.until))
	}
	return p
}

// reportEvery is how often at most the log tells how many turns a drain still
// waits for.
const reportEvery = time.Second

// reportDrain logs how many turns still run whenever that has changed, until all have
// ended.
func (w *Worker) reportDrain(idle <-chan struct{}) {
	for {
		select { // the drain's begin was logged, too
		case <-idle:
			return
		case <-time.After(reportEvery):
		}
		select {
		case <-idle:
			return
		case <-w.roster.left:
		}
		if p := w.DrainProgress(); p.Running > 0 {
			w.log.Info("still draining", "reason", p.Reason.Name(), "running", p.Running, "left", p.Left.Round(time.Second))
		}
	}
}
