package worker

import (
	"time"

	"turnstile/pkg/session"
)

// Observer is called with what a worker does, for metrics and the like. Several goroutines call
// its methods at once, among them those that run the turns, so they must not block. They must not
// use an argument after the call.
type Observer interface {
	// MessageStarted reports that an agent is started for a message that was in no turn before.
	// wait is the time since the message was first seen or due.
	MessageStarted(wait time.Duration)

	// TurnEnded reports that a turn has ended on this worker. It is called once for each turn
	// that the worker took.
	TurnEnded(TurnEnd)

	// RedisFailed reports that one of the worker's own Duties has failed. The worker tries again.
	RedisFailed(duty string, err error)
}

// TurnEnd is how a turn ended on a worker.
type TurnEnd struct {
	Session, Turn string
	Message       string // the turn's first; others may have joined it
	Attempt       int    // from 1
	Status        session.Status
	Ran           bool          // its agent was started
	Wait          time.Duration // from when the message was first seen, also in a retry, until the turn was claimed
	Duration      time.Duration // from the claim to the end
	Err           error         // why it did not succeed; wraps lease.ErrLost if the lease was lost
}

// The statuses of turns that ended on this worker and whose messages run again.
const (
	StatusRequeued session.Status = "requeued" // interrupted, by a drain or the agent's guardian
	StatusRetried  session.Status = "retried"  // it failed, and has attempts left
	StatusLost     session.Status = "lost"     // its end could not be written, usually because the lease was lost
)

// Statuses returns all values of TurnEnd.Status.
func Statuses() []session.Status {
	return []session.Status{
		session.StatusDone, session.StatusFailed, session.StatusInterrupted, session.StatusStopped,
		session.StatusExpired, StatusRequeued, StatusRetried, StatusLost,
	}
}

// The worker's own work in Redis.
const (
	dutyClaim = "claim"
	dutyRenew = "renew"
	dutyDue   = "due"
	dutyReap  = "reap"
	dutySweep = "sweep"
	dutyWake  = "wake"
)

// Duties returns all duties that RedisFailed may name.
func Duties() []string { return []string{dutyClaim, dutyRenew, dutyDue, dutyReap, dutySweep, dutyWake} }

// duties reports failures of the worker's own duties to an observer.
type duties struct {
	observer Observer
	life     *lifecycle
}

// failed reports a failure, unless the worker's own end caused it.
func (d duties) failed(duty string, err error) {
	if d.observer != nil && d.life.work.Err() == nil {
		d.observer.RedisFailed(duty, err)
	}
}
