package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"turnstile/internal/lease"
	"turnstile/pkg/session"
)

// Observer is told what a worker does, for metrics and the like. Its methods are
// called by several goroutines at once, among them those that run the turns: they
// must not wait for anything. No argument outlives what it tells of.
type Observer interface {
	// MessageStarted tells that an agent is started for a message that was in no turn
	// before. It had waited so long in line, from when it was first seen or was due.
	MessageStarted(wait time.Duration)

	// TurnEnded tells that a turn is over on this worker, once for each that it took.
	TurnEnded(TurnEnd)

	// RedisFailed tells that something has failed which is the worker's own affair and
	// no turn's, and which it does again: one of the Duties.
	RedisFailed(duty string, err error)
}

// TurnEnd is how a turn ended on a worker.
type TurnEnd struct {
	Session, Turn string
	Message       string // that began the turn; others may have joined it
	Attempt       int    // from 1
	Status        session.Status
	Ran           bool          // its agent was started
	Wait          time.Duration // of the message, until the turn was taken; since it was first seen, also in a retry
	Duration      time.Duration // from then to the end
	Err           error         // why it did not end well; wraps lease.ErrLost if the lease was lost
}

// The statuses of turns that ended here, but not for their messages: these are run
// again.
const (
	StatusRequeued session.Status = "requeued" // cut off, by a drain or the agent's guardian
	StatusRetried  session.Status = "retried"  // it failed, and has attempts left
	StatusLost     session.Status = "lost"     // its end could not be written, mostly for a lost lease
)

// Statuses are all that a TurnEnd may have.
func Statuses() []session.Status {
	return []session.Status{
		session.StatusDone, session.StatusFailed, session.StatusInterrupted, session.StatusStopped,
		session.StatusExpired, StatusRequeued, StatusRetried, StatusLost,
	}
}

// What a worker does for itself.
const (
	dutyClaim = "claim"
	dutyRenew = "renew"
	dutyDue   = "due"
	dutyReap  = "reap"
	dutySweep = "sweep"
	dutyWake  = "wake"
)

// Duties are all that Observer.RedisFailed may be told of.
func Duties() []string { return []string{dutyClaim, dutyRenew, dutyDue, dutyReap, dutySweep, dutyWake} }

// started tells the observer of the messages that begin their first turn.
func (t *turn) started() {
	t.ran = true
	o := t.served.w.opts.Observer
	if o == nil {
		return
	}
	if t.Taken.First() {
		o.MessageStarted(t.Age)
	}
	for i := range t.Collected {
		if t.Collected[i].First() {
			o.MessageStarted(t.Collected[i].Age)
		}
	}
}

// ended tells the observer of the turn's end, and writes the log's line. lost is
// why the end could not be written, if it could not.
func (t *turn) ended(lost error) {
	defer t.contain("telling of its end")
	end := TurnEnd{
		Session: t.Session, Turn: t.ID, Message: t.Message.ID, Attempt: t.Attempt, Status: t.status, Ran: t.ran,
		Wait: t.Age, Duration: time.Since(t.Started), Err: t.failure,
	}
	if lost != nil {
		end.Status, end.Err = StatusLost, lost
	}
	if o := t.served.w.opts.Observer; o != nil {
		o.TurnEnded(end)
	}
	level := slog.LevelInfo
	switch {
	case lost != nil && !errors.Is(lost, lease.ErrLost):
		level = slog.LevelError // its sentinel runs out
	case lost != nil, end.Status == session.StatusFailed:
		level = slog.LevelWarn
	}
	if ctx := context.Background(); t.log.Enabled(ctx, level) {
		line := []slog.Attr{
			slog.String("status", string(end.Status)), slog.String("message", end.Message), slog.Int("attempt", end.Attempt),
			slog.Duration("duration", end.Duration.Round(time.Millisecond)), slog.Duration("wait", end.Wait.Round(time.Millisecond)),
		}
		if end.Status == StatusRetried {
			line = append(line, slog.Duration("retry_in", t.retryIn.Round(time.Millisecond)))
		}
		if end.Err != nil {
			line = append(line, slog.Any("error", end.Err))
		}
		t.log.LogAttrs(ctx, level, "turn ended", line...)
	}
}

// redisFailed tells the observer, unless it is the worker's own end that cut a duty
// off.
func (w *Worker) redisFailed(duty string, err error) {
	if w.opts.Observer != nil && w.ctx.Err() == nil {
		w.opts.Observer.RedisFailed(duty, err)
	}
}
