package engine

import (
	"time"

	"turnstile/pkg/session"
)

// Observer hears what a worker does, for metrics and the like. Several goroutines call
// its methods at once, among them those that run the turns: they must not block. No
// argument may be used after the call.
type Observer interface {
	// MessageStarted tells that an agent is started for a message that was in no turn
	// before, and how long it has waited since it was first seen or due.
	MessageStarted(wait time.Duration)

	// TurnEnded tells that a turn is over on this worker, once for each that it took.
	TurnEnded(TurnEnd)

	// RedisFailed tells that one of the worker's own Duties has failed. It tries again.
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
	Err           error         // why it did not succeed; wraps lease.ErrLost if the lease was lost
}

// The statuses of turns that ended on this worker, and whose messages run again.
const (
	StatusRequeued session.Status = "requeued" // interrupted, by a drain or the agent's guardian
	StatusRetried  session.Status = "retried"  // it failed, and has attempts left
	StatusLost     session.Status = "lost"     // its end could not be written, mostly because the lease was lost
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

// Duties are all that Observer.RedisFailed may name.
func Duties() []string { return []string{dutyClaim, dutyRenew, dutyDue, dutyReap, dutySweep, dutyWake} }

// duties tells an observer of failures of the worker's own duties.
type duties struct {
	observer Observer
	life     *lifecycle
}

// failed tells of one, unless it is the worker's own end that cut the duty off.
func (d duties) failed(duty string, err error) {
	if d.observer != nil && d.life.work.Err() == nil {
		d.observer.RedisFailed(duty, err)
	}
}
