package turnlog

import (
	"errors"
	"maps"
	"sync"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// toolsPerInterval bounds how many checkpoints of tools there are in one interval.
const toolsPerInterval = 10

// activity is how much an event of the agent matters to a checkpoint.
type activity int

const (
	nothing   activity = iota // a tool's start, a thought: losing it costs nothing
	someText                  // part of a reply
	toolEnded                 // the tool may have had effects, and should not run again
)

// journal is what is known of the turn's journal, beside the versions of entries and the records of steps.
type journal struct {
	based       bool      // it has the entries before those that this run makes
	checkpoints alarm     // set by the first activity after one: an idle agent costs nothing
	checked     time.Time // when the last one was taken; zero: never
}

// checkpointAfter schedules a checkpoint for an activity: after text when an interval has passed since the last one or
// the turn's start, after a tool's end at once, but at most ten times an interval. l.mu is held.
func (l *Log) checkpointAfter(a activity) {
	since, wait := l.checked, l.CheckpointEvery
	if a == toolEnded {
		wait /= toolsPerInterval
	}
	switch {
	case since.IsZero() && a == toolEnded:
		since, wait = time.Now(), 0
	case since.IsZero():
		since = l.turn.Started
	}
	l.checkpoints.at(since.Add(wait))
}

// Checkpoint takes a checkpoint as soon as possible, if there was any activity: the turn is about to be interrupted.
func (l *Log) Checkpoint() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.checkpoints.due.IsZero() && !l.over {
		l.checkpoints.at(time.Now())
	}
}

// checkpoint stores the turn's entries so far.
func (l *Log) checkpoint() {
	defer l.Contain("its checkpoint")
	l.storing.lock()
	defer l.storing.unlock()
	l.mu.Lock()
	l.checkpoints.due, l.checked = time.Time{}, time.Now()
	l.mu.Unlock()
	if err := l.write("", false); err != nil && !errors.Is(err, ErrOver) {
		l.Logger.Warn("the turn's checkpoint was not stored", "error", err)
	}
}

// StoreRest stores what the journal does not have, after Stop.
func (l *Log) StoreRest() error {
	l.storing.lock()
	defer l.storing.unlock()
	return l.write("", true)
}

// write writes what is new into the turn's journal. Before the agent has done anything it writes nothing: what an
// earlier run has stored stays. With a key it returns as soon as that step is stored. After the log's end, only the
// turn's end may write: the claim may be at its next turn by then. l.storing is held.
func (l *Log) write(key string, ending bool) error {
	l.sending.lock()
	sent := sync.OnceFunc(l.sending.unlock)
	defer sent()
	if !ending {
		l.saveState() // as in flush
	}
	w, version, err := l.unstored(key, ending)
	if err != nil || w.Count == 0 {
		return err
	}
	if len(w.Events) == 0 {
		sent()
	}
	origin, err := l.Store.Journal(l.Context, w)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if len(w.Events) > 0 {
			l.unshown, l.gate = append(w.Events, l.unshown...), 0
		}
		return err
	}
	l.origin, l.stored, l.based = origin, version, true
	maps.DeleteFunc(l.changed, func(key, record string) bool { return w.Steps[key] == record })
	return nil
}

// unstored returns a write of all that is not stored yet, and the version of the items after it. Its count is 0 if there
// is nothing to write.
func (l *Log) unstored(key string, ending bool) (w protocol.JournalWrite, version int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, waits := l.changed[key]
	switch {
	case key != "" && !waits: // another step's write had it
		return w, 0, nil
	case l.over && !ending:
		return w, 0, ErrOver
	case l.version == l.stored && len(l.changed) == 0:
		return w, 0, nil
	}
	l.flushWords()
	given := l.given()
	stand := len(l.made)
	if l.stepped {
		stand = l.standing // a message that was steered in later goes back
	}
	w = protocol.JournalWrite{
		Entries: map[int]session.Entry{}, Count: len(given) + len(l.made), HasSteps: l.stepped, Closed: len(given) + l.standing, Progress: l.progress,
		Steps: maps.Clone(l.changed), Usage: l.usage, Lead: len(l.lead()), Messages: l.messages(stand), Items: l.shownOf(len(l.made)), Keeps: -1,
		Ran: l.ran + time.Since(l.turn.Started),
	}
	if l.goesOn {
		w.Keeps = l.shownOf(l.standing)
	}
	if len(l.changed) > 0 {
		w.Events = l.takeEvents(true) // followers have seen what the next run does not show again
	}
	if !l.based {
		for i, e := range given {
			w.Entries[i] = e
		}
	}
	for i, e := range l.made {
		if e.version > l.stored {
			w.Entries[len(given)+i] = e.Entry
		}
	}
	return w, l.version, nil
}
