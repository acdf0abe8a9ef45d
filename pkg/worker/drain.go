package worker

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

// Name is the reason without "_timeout": shutdown or restart.
func (r Reason) Name() string { return strings.TrimSuffix(string(r), "_timeout") }

// notice is the text for the users of the turns that run when a drain begins.
func (o Options) notice(r Reason) string {
	what := "shutting down"
	if r == ReasonRestart {
		what = "restarting"
	}
	if o.Ephemeral {
		return "This worker is " + what + ", and nothing is kept. If the current task does not end in time it will be interrupted."
	}
	return "This worker is " + what + ". If the current task does not end in time it will be interrupted, and another worker will try to resume it."
}

// Drain ends the worker. It claims nothing more and lets the running turns go on for
// DrainTimeout. Then it interrupts those that still run and requeues their messages, which
// another worker takes at once. It returns when nothing of this worker is left.
//
// The end of ctx ends the wait for the turns; interrupted agents still have their grace. A Redis
// that hangs does not delay the interrupts. DrainProgress and the log show the progress.
//
// A second call waits for the first. Drain may be called before Start.
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
		<-w.begun // Start fails now, or has started its actors, which end by themselves
	}
	w.log.Info("draining", "reason", reason.Name(), "running", w.Running(), "timeout", w.opts.DrainTimeout)
	idle := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { w.reportDrain(idle) })
	if w.jobs != nil {
		beside.Go(w.jobs.stop) // it takes time, so it runs beside the turns
	}
	for _, s := range running { // sessions whose claim is in flight get the notice when they join
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
		"requeued", ends[outcomeRequeued], "lost", ends[outcomeLost])
}

// letRun returns when no turn runs any more, the drain's time is over, or ctx ends.
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

// markPatience is how long the interrupts wait for the marks. Turns that are not marked by then
// are marked by their requeue.
const markPatience = time.Second

// interrupt ends the turns that still run. It marks each to be resumed before it interrupts it. A
// turn without an agent does not start one.
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

// DrainProgress is the progress of a drain.
type DrainProgress struct {
	// Draining is true from the first call of Drain on.
	Draining bool

	// Reason is the reason given to the first call of Drain, "" before it.
	Reason Reason

	// Running counts the sessions whose turns have not ended, as Worker.Running does.
	Running int

	// Left is how long turns may go on before they are interrupted. During a drain, 0 means that
	// those that still run are being interrupted.
	Left time.Duration
}

// DrainProgress returns the progress of a drain. It costs no more than a lock.
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

// reportEvery is the shortest time between two log lines about a drain's progress.
const reportEvery = time.Second

// reportDrain logs how many turns still run, each time the number has changed, until all have
// ended.
func (w *Worker) reportDrain(idle <-chan struct{}) {
	for {
		select { // the beginning of the drain is logged already
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
