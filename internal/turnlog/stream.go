package turnlog

import (
	"errors"
	"time"

	"turnstile/internal/protocol/lease"
	"turnstile/pkg/session"
)

const (
	// emitEvery is how long events are collected before they are sent, so that a stream of tokens
	// does not become a stream of round trips.
	emitEvery = 75 * time.Millisecond

	// emitFirst is how long the first event after a pause waits. A turn that is over by then needs
	// no separate batch.
	emitFirst = 5 * time.Millisecond
)

// noGate is a gate that holds nothing back.
const noGate = -1

// stream is what followers have yet to be shown.
type stream struct {
	unshown []session.Event
	gate    int       // the events from this place on wait for the write of a step. The first is no text
	title   string    // proposed and not stored yet
	flushes alarm     // of the next batch
	flushed time.Time // when the last batch was sent; zero: never
}

// alarm runs a function at the earliest time that it was set to. The log's lock guards it.
type alarm struct {
	run   func()
	timer *time.Timer
	due   time.Time // zero: it is not set
}

func (a *alarm) at(t time.Time) {
	switch {
	case !a.due.IsZero() && (!t.Before(a.due) || !a.timer.Stop()):
		return // it is soon enough, or has gone off
	case a.timer == nil:
		a.timer = time.AfterFunc(time.Until(t), a.run)
	default:
		a.timer.Reset(time.Until(t))
	}
	a.due = t
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// send adds an event to the next batch and merges adjacent pieces of text. l.mu is held.
func (l *Log) send(e session.Event) {
	last := len(l.unshown) - 1
	if last >= 0 && isText(e) && l.unshown[last].Type == e.Type {
		l.unshown[last].Text += e.Text
	} else {
		l.unshown = append(l.unshown, e)
	}
	l.flushSoon()
}

func isText(e session.Event) bool {
	return e.Type == session.EventText || e.Type == session.EventThought
}

// hold makes the events from now on wait for the next write of a step. l.mu is held.
func (l *Log) hold() {
	if l.gate == noGate {
		l.gate = len(l.unshown)
	}
}

// takeEvents takes the next batch; with a step's write also what waits for it. l.mu is held.
func (l *Log) takeEvents(all bool) (events []session.Event) {
	n := len(l.unshown)
	if all {
		l.gate = noGate
	} else if l.gate != noGate {
		n, l.gate = l.gate, 0
	}
	events, l.unshown = l.unshown[:n:n], l.unshown[n:]
	return events
}

// flushSoon makes sure that a batch is sent soon. l.mu is held.
func (l *Log) flushSoon() {
	at := l.flushed.Add(emitEvery)
	if first := time.Now().Add(emitFirst); at.Before(first) {
		at = first
	}
	l.flushes.at(at)
}

// flush sends a batch. After the end it does nothing: Stop sends the rest, because the claim may be at its next turn by
// then.
func (l *Log) flush() {
	defer l.Contain("its events")
	l.sending.lock()
	defer l.sending.unlock()
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return
	}
	events, title := l.takeEvents(false), l.title
	l.title, l.flushes.due, l.flushed = "", time.Time{}, time.Now()
	l.mu.Unlock()
	l.saveState() // first, so that readers of the agent's text find it stored
	l.emit(events, title)
}

// emit sends a batch. Events are only for followers, so a failure does not end the turn.
func (l *Log) emit(events []session.Event, title string) {
	if err := l.Store.Emit(l.Context, events); err != nil && !errors.Is(err, lease.ErrLost) { // the turn's end reports a loss
		l.Logger.Warn("events were not sent", "events", len(events), "error", err)
	}
	if title == "" {
		return
	}
	if err := l.Store.Title(l.Context, title); err != nil {
		l.Logger.Warn("the title was not stored", "error", err)
	}
}

// Close ends the log: nothing more is recorded or shown.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.flushes.stop()
	l.checkpoints.stop()
}

// Stop ends the log and sends the rest, except a last piece of text, which the turn's end repeats anyway. It waits for
// writes in flight.
func (l *Log) Stop() {
	l.Close()
	l.storing.lock()
	l.storing.unlock() // a later one is refused
	l.sending.lock()
	defer l.sending.unlock()
	l.mu.Lock()
	rest, title := l.takeEvents(true), l.title
	l.title = ""
	l.mu.Unlock()
	if len(rest) > 1 || len(rest) == 1 && rest[0].Type != session.EventText {
		l.emit(rest, title)
	}
}
