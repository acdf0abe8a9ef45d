package worker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// journal is the part of a recorder that keeps the turn's journal: entries and steps. Only what is new is
// written. The recorder's lock guards it, except for storing.
type journal struct {
	storing oneAtATime        // one write at a time, in order
	based   bool              // this run has stored the entries before those that it makes
	changed map[string]string // records of steps that are not stored yet, JSON by keys
	steps   bool              // the turn has steps
	ended   bool              // a step has ended in this run
	origin  string            // see protocol.Claim.Journal; "" before the first write
	ran     time.Duration     // of earlier runs with steps, until their last writes
}

// change notes a step's record for the next write.
func (j *journal) change(key, record string) {
	if j.changed == nil { // most turns have no steps
		j.changed = map[string]string{}
	}
	j.changed[key] = record
}

// storeCheckpoint stores the turn's entries so far.
func (r *recorder) storeCheckpoint() {
	if err := r.store("", false); err != nil && !errors.Is(err, errOver) {
		r.log.Warn("the turn's checkpoint was not stored", "error", err)
	}
}

// store writes what is new into the turn's journal. Before the agent has done anything it writes nothing:
// what an earlier run has stored stays. With a key it returns as soon as that step is stored. After the
// recording's end, only the turn's end may write: the claim may be at its next turn by then.
func (r *recorder) store(key string, ending bool) error {
	r.journal.storing.lock()
	defer r.journal.storing.unlock()
	r.sending.lock()
	sent := sync.OnceFunc(r.sending.unlock)
	defer sent()
	if !ending && r.running() {
		r.state.save() // as in flush
	}
	w, ok, err := r.toStore(key, ending)
	if !ok {
		return err
	}
	if len(w.Events) == 0 {
		sent()
	}
	// Not the turn's context: a step that ended with the turn is stored, too.
	origin, err := r.claim.Journal(r.claim.Lease().Context(), w)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.restore(w)
		return err
	}
	r.journal.origin = origin
	return nil
}

// running reports whether the recording goes on.
func (r *recorder) running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.over
}

// toStore takes what a call of store is to write.
func (r *recorder) toStore(key string, ending bool) (w protocol.JournalWrite, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case key != "" && r.journal.changed[key] == "": // another step's write had it
		return w, false, nil
	case r.over && !ending:
		return w, false, errOver
	}
	w, ok = r.unstored()
	return w, ok, nil
}

// unstored takes what is not stored yet. r.mu is held.
func (r *recorder) unstored() (w protocol.JournalWrite, ok bool) {
	j, s := &r.journal, &r.entries
	if len(s.touched)+len(j.changed) == 0 {
		return w, false
	}
	s.flushWords()
	given := s.given()
	stand := len(s.made)
	if j.steps {
		stand = s.closed // a message that was steered in later goes back
	}
	w = protocol.JournalWrite{
		Entries: map[int]session.Entry{}, Count: len(given) + len(s.made), HasSteps: j.steps, Closed: len(given) + s.closed, Progress: j.ended,
		Steps: j.changed, Usage: s.usage, Lead: len(s.lead()), Messages: s.messages(stand), Items: items(s.made), Keeps: -1,
		Ran: j.ran + time.Since(r.turn.Started),
	}
	if s.apart {
		w.Keeps = items(s.made[:s.closed])
	}
	if len(j.changed) > 0 {
		w.Events = r.allUnsent() // followers have seen what the next run does not show again
	}
	if !j.based {
		for i, e := range given {
			w.Entries[i] = e
		}
	}
	for _, i := range s.touched {
		w.Entries[len(given)+i] = s.made[i]
	}
	s.touched, j.changed, j.based = nil, nil, true
	return w, true
}

// restore notes again what a failed write has not stored. r.mu is held.
func (r *recorder) restore(w protocol.JournalWrite) {
	if len(w.Events) > 0 {
		r.held, r.unsent, r.hold = slices.Concat(w.Events, r.unsent, r.held), nil, true
	}
	given := r.entries.first()
	for i := range w.Entries {
		if i < given {
			r.journal.based = false
		} else {
			r.entries.touch(i - given)
		}
	}
	for key, record := range w.Steps {
		if _, newer := r.journal.changed[key]; !newer {
			r.journal.change(key, record)
		}
	}
}

// goOn takes over what earlier runs of this turn have done, from which it goes on. recap is the history that
// the first run with steps had from a run before it.
func (r *recorder) goOn(j *protocol.Journal) (recap, kept []session.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took(j)
	recap = r.entries.keep(j)
	return recap, slices.Clone(r.entries.made)
}

// beginAgain takes over the steps of earlier runs, for an agent that begins its turn again.
func (r *recorder) beginAgain(j *protocol.Journal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took(j)
}

// inherit takes over the entries of an earlier run of this turn, of an agent without steps.
func (r *recorder) inherit(j *protocol.Journal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took(j)
	r.entries.inherit(j.Entries)
}

// took takes over the counts of earlier runs, and what tools they have ended. r.mu is held.
func (r *recorder) took(j *protocol.Journal) {
	r.entries.took(j.Entries)
	r.journal.steps, r.journal.origin, r.journal.ran, r.entries.usage = len(j.Steps) > 0, j.Origin, j.Ran, j.Usage
}

// announce records a step's start, unless an earlier run has shown it.
func (r *recorder) announce(e agent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries.shown[e.CallID] > 0 {
		r.entries.shown[e.CallID]--
		if r.trace != nil {
			r.traced(e) // the earlier run has traced a step that did not end
		}
		return
	}
	r.add(e)
}

// ended records a step's end, and notes which run has done it and how long it took. r.mu is held.
func (r *recorder) ended(e agent.Event, s stepRecord) {
	r.add(e)
	r.entries.was(e.CallID, s)
}

// keep stores the record of a step with the events that show sends; nil: none. It returns after the write, which
// may have the records of several steps.
func (r *recorder) keep(key string, s stepRecord, text string, show func()) error {
	if err := r.note(key, s, text, show); err != nil {
		return err
	}
	return r.store(key, false)
}

// note notes the record of a step for the next write, and its events with it, so that no write has only one.
func (r *recorder) note(key string, s stepRecord, text string, show func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errOver
	}
	r.acts()
	if show != nil {
		r.hold = true
		show()
	}
	r.entries.flushWords()
	r.entries.closed = len(r.entries.made)
	j := &r.journal
	j.change(key, text)
	j.steps, j.ended = true, j.ended || s.State != stepStarted
	return nil
}
