package worker

import "time"

// WarmAgent describes a session's warm agent, if there is one.
type WarmAgent struct {
	Signature, SessionID string
	Entries              int64
}

// WarmAgent returns a session's warm agent between two turns.
func (w *Worker) WarmAgent(session string) (found WarmAgent, ok bool) {
	if !w.pool.has(session) {
		return found, false
	}
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	a, ok := w.pool.idle.Peek(session)
	if !ok {
		return found, false
	}
	return WarmAgent{a.signature, a.seen.sessionID, a.seen.entries}, true
}

// JobsEvery makes all maintenance jobs run at one interval.
func (o *Options) JobsEvery(d time.Duration) { o.jobsEvery = d }

// StuckAfter sets how long a loop's step may take.
func (o *Options) StuckAfter(d time.Duration) { o.stuckAfter = d }

// Interrupted counts the sessions that a drain has interrupted.
func (w *Worker) Interrupted() (n int) {
	for _, s := range w.roster.all() {
		s.mu.Lock()
		if s.drained != nil {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// DrainDuring is the end of a drain's wait, while claim is in flight.
func DrainDuring(claim func()) {
	d := &dispatcher{}
	d.claiming.Go(claim)
	d.wait()
}
