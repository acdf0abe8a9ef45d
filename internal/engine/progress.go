package engine

import "time"

// reportEvery is how often at most the log tells how many turns a drain still
// waits for.
const reportEvery = time.Second

// DrainProgress is how far a drain is.
type DrainProgress struct {
	// Draining is true from the moment that Drain was called, for good.
	Draining bool

	// Reason is that of the first call of Drain; "" before it.
	Reason Reason

	// Running counts the turns that have not ended, as Worker.Running does.
	Running int

	// Left is how long they may go on before they are interrupted. 0 in a drain:
	// those that still run are being interrupted.
	Left time.Duration
}

// DrainProgress tells how far a drain is. It costs no more than a lock, and may
// be asked at any time, as often as one likes.
func (w *Worker) DrainProgress() DrainProgress {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := DrainProgress{Draining: w.ended, Running: len(w.sessions)}
	if w.ended {
		p.Reason, p.Left = w.drain.reason, max(0, time.Until(w.drain.until))
	}
	return p
}

// drain is what is known of a worker's drain. Its fields are the worker's mu's.
type drain struct {
	reason Reason
	until  time.Time       // when the turns are interrupted that still run
	over   bool            // they are, and so is any that begins now
	ends   map[outcome]int // how the turns ended since
}

// outcome is how a session's last turn ended on this worker.
type outcome string

// The outcomes, as the log names them.
const (
	outcomeFinished  outcome = "finished"
	outcomeGivenBack outcome = "given_back"
	outcomeLost      outcome = "lost"
)

// leave takes a session off the list of those that are served.
func (w *Worker) leave(s *served) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sessions, s)
	if !w.ended {
		return
	}
	w.drain.ends[s.outcome]++
	select {
	case w.left <- struct{}{}:
	default: // the report has not yet taken the last one
	}
}

// report logs how many turns still run whenever that has changed, until all have
// ended.
func (w *Worker) report(idle <-chan struct{}) {
	for {
		select { // the drain's begin was logged, too
		case <-idle:
			return
		case <-time.After(reportEvery):
		}
		select {
		case <-idle:
			return
		case <-w.left:
		}
		if p := w.DrainProgress(); p.Running > 0 {
			w.log.Info("still draining", "reason", p.Reason.Name(), "running", p.Running, "left", p.Left.Round(time.Second))
		}
	}
}
