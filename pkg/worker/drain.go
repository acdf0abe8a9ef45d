package worker

import (
	"context"
	"strings"
	"sync"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// reason is why a worker drains, as the events of requeued turns carry it.
type reason string

const (
	reasonShutdown reason = resume.ReasonShutdown
	reasonRestart  reason = resume.ReasonRestart
)

// name is the reason without "_timeout": shutdown or restart.
func (r reason) name() string { return strings.TrimSuffix(string(r), "_timeout") }

// notice is the text for the users of the turns that run when a drain begins.
func (c Config) notice(r reason) string {
	what := "shutting down"
	if r == reasonRestart {
		what = "restarting"
	}
	if c.Ephemeral {
		return "This worker is " + what + ", and nothing is kept. If the current task does not end in time it will be interrupted."
	}
	return "This worker is " + what + ". If the current task does not end in time it will be interrupted, and another worker will try to resume it."
}

// Stop takes no more sessions, lets turns run for DrainTimeout or until ctx ends, and interrupts
// those that are left. Their messages are requeued, and other workers resume them at once. Stop
// returns when nothing of the worker runs; interrupted agents still have their grace. Status and
// the log show the progress.
//
// An error says that the ends of some turns could not be written. Other workers run them again
// when their leases have expired.
//
// Stop may be called before Start, which fails then. A second call waits for the first.
func (w *Worker) Stop(ctx context.Context) error { return w.drain(ctx, reasonShutdown) }

// StopToRestart is Stop for a worker that is started again: its notice to users says so.
func (w *Worker) StopToRestart(ctx context.Context) error { return w.drain(ctx, reasonRestart) }

func (w *Worker) drain(ctx context.Context, why reason) error {
	w.mu.Lock()
	was := w.state
	w.state = drained
	w.mu.Unlock()
	if was == drained {
		<-w.life.work.Done()
		w.life.stop()
		return w.roster.unwritten()
	}
	running := w.roster.beginDrain(why, w.opts.DrainTimeout)
	w.dispatcher.close()
	w.life.endIntake()
	if was == started {
		<-w.begun // Start fails from now on, or has started its actors, which end by themselves
	}
	w.log.Info("draining", "reason", why.name(), "running", w.roster.size(), "timeout", w.opts.DrainTimeout)
	idle := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { w.reportDrain(why, idle) })
	if w.jobs != nil {
		beside.Go(w.jobs.stop) // it takes time, so the turns go on meanwhile
	}
	for _, s := range running { // sessions with a claim in flight get the notice when they join
		s.notify(w.opts.notice(why))
	}
	go func() {
		w.dispatcher.wait()
		close(idle)
	}()
	w.letRun(ctx, idle)
	w.interrupt(why)
	<-idle
	w.pool.end()
	beside.Wait()
	if w.jobs != nil {
		w.jobs.end()
	}
	w.life.stop()
	ends := w.roster.drain.ends
	w.log.Info("drained", "reason", why.name(), "finished", ends[outcomeFinished],
		"requeued", ends[outcomeRequeued], "lost", ends[outcomeLost])
	return w.roster.unwritten()
}

// letRun returns when no turn runs any more, the drain's time is over, or ctx ends.
func (w *Worker) letRun(ctx context.Context, idle <-chan struct{}) {
	var over <-chan time.Time // nil: never
	if _, left, _ := w.roster.progress(); left != session.NoLimit {
		timer := time.NewTimer(left)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-idle:
	case <-over:
	case <-ctx.Done():
	}
	w.roster.timeIsUp()
}

// markPatience is how long the interrupts wait for the marks. Later turns are marked when they
// are parked.
const markPatience = time.Second

// interrupt ends the turns that still run. It marks each to be resumed before it interrupts it. A
// turn without an agent does not start one.
func (w *Worker) interrupt(why reason) {
	sessions := w.roster.all()
	claims := make([]*protocol.Claim, len(sessions))
	for i, s := range sessions {
		claims[i] = s.claim
	}
	marked := make(chan struct{})
	w.life.run(func() {
		defer close(marked)
		for i, m := range w.queue.Mark(w.life.work, claims, string(why)) {
			if m.Err != nil && claims[i].Lease().Held() == nil {
				sessions[i].log.Debug("no mark: the turn has ended, or park will mark it", "error", m.Err)
			}
		}
	})
	select {
	case <-marked:
	case <-time.After(markPatience):
		w.log.Warn("turns are interrupted before they are marked: Redis does not reply")
	}
	for _, s := range sessions {
		s.interrupt(drainError{why})
	}
}

// reportEvery is the shortest time between two log lines about a drain's progress.
const reportEvery = time.Second

// reportDrain logs how many turns still run, each time the number has changed, until none runs.
func (w *Worker) reportDrain(why reason, idle <-chan struct{}) {
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
		if running, left, _ := w.roster.progress(); running > 0 {
			w.log.Info("still draining", "reason", why.name(), "running", running, "left", left.Round(time.Second))
		}
	}
}
