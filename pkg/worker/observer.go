package worker

import (
	"time"

	"turnstile/pkg/session"
)

// Observer has functions for metrics. The worker does not call nil ones. Several goroutines call them at once, among them those that run the turns, so they must
// not block.
type Observer struct {
	// MessageStarted is called when an agent is started for a message that was in no turn before.
	// wait is the time since the message was first seen or due.
	MessageStarted func(wait time.Duration)

	// TurnEnded is called once for each turn that the worker took.
	TurnEnded func(TurnEnd)

	// Used is called with each report of an agent's tokens and cost, however its turn ends. agent is the
	// agent's name. The numbers and the model's name are the agent's own: bound them.
	Used func(agent string, used session.Usage)

	// RedisFailed is called when the worker's own work in Redis failed: claim, renew, due, reap, sweep
	// or wake. The worker tries again.
	RedisFailed func(duty string, err error)
}

// TurnEnd is how a turn ended on a worker.
type TurnEnd struct {
	Session, Turn string
	Message       string         // the turn's first; others may have joined it
	Attempt       int            // from 1
	Status        session.Status // one of package session, or StatusRequeued, StatusRetried, StatusParked, StatusLost
	Code          string         // the kind of a failure, as in session.Outcome
	Ran           bool           // its agent was started
	Wait          time.Duration  // from the message's arrival to this turn's claim
	Duration      time.Duration  // from the claim to the end
	Err           error          // why it did not succeed; wraps agent.ErrLeaseLost if the lease was lost
}

// The statuses of turns that ended on this worker while their messages run again.
const (
	StatusRequeued session.Status = "requeued" // interrupted, by a drain or the agent's guardian
	StatusRetried  session.Status = "retried"  // it failed, and has attempts left
	StatusParked   session.Status = "parked"   // it waits for a decision, a value, a time or a provider, without a worker
	StatusLost     session.Status = "lost"     // its end could not be written, usually because the lease was lost
)

// The worker's own work in Redis.
const (
	dutyClaim = "claim"
	dutyRenew = "renew"
	dutyDue   = "due"
	dutyReap  = "reap"
	dutySweep = "sweep"
	dutyWake  = "wake"
)

// duties reports failures of the worker's own duties to an observer.
type duties struct {
	observer Observer
	life     *lifecycle
}

// failed reports a failure, unless the worker's own end caused it.
func (d duties) failed(duty string, err error) {
	if d.observer.RedisFailed != nil && d.life.work.Err() == nil {
		d.observer.RedisFailed(duty, err)
	}
}
