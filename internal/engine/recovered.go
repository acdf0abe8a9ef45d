package engine

import "turnstile/internal/protocol"

// Recovered counts the sessions that a worker has claimed after turns of theirs
// had been cut off, by a drain or by their worker's death.
type Recovered struct {
	Resumed   int // marked: they went on in the same transcript
	Suspended int // they began anew, in a fresh one
}

// Recovered is the count since the worker's start. A message that was given up is
// not in it: that its turn ended so is an event of its session.
func (w *Worker) Recovered() Recovered {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.recovered
}

// countRecovered counts a session that was claimed, if there was anything to
// recover.
func (w *Worker) countRecovered(h *protocol.Claim) {
	t := h.Turn()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case t.Reset != "":
		w.recovered.Suspended++
		w.log.Warn("the session begins anew", "session", t.Session, "reason", t.Reset, "suspended", w.recovered.Suspended)
	case t.Resume != "":
		w.recovered.Resumed++
	}
}
