package agent

import (
	"context"
	"encoding/json"
	"time"

	"turnstile/pkg/session"
)

// Host has a worker's functions for a running turn. Any field may be nil.
type Host struct {
	// Emit must not block for long. Any goroutine may call it until Run returns.
	Emit func(Event)

	// Ask returns the user's decision, or ctx's cause when ctx ends.
	Ask func(ctx context.Context, q Question) (session.Decision, error)

	// Wait waits for a program's value or for a time: see the method of Turn.
	Wait func(ctx context.Context, w Wait) (json.RawMessage, error)

	// Steers is never closed, and unbuffered: a message that the agent does not receive stays in the
	// session's queue.
	Steers <-chan Steer

	// StartStep and EndStep keep the turn's journal: see the methods of Turn. Any goroutine may call them.
	StartStep func(ctx context.Context, s StepSpec) (StepRecord, error)
	EndStep   func(ctx context.Context, s StepSpec, e StepEnd) error

	Lease Lease
}

// Lease is a session's lease, as the worker trusts it. Any goroutine may call its methods.
type Lease interface {
	// Deadline is on the monotonic clock, and moves forward with each renewal.
	Deadline() time.Time

	// Renewed returns a channel that is closed when Deadline moves next. To miss no renewal, call it before
	// Deadline.
	Renewed() <-chan struct{}
}

// Emit reports an event. Any goroutine may call it until Run returns. It does not block for long
// and does not retain the event. Without a host it does nothing.
func (t *Turn) Emit(e Event) {
	if t.Host.Emit != nil {
		t.Host.Emit(e)
	}
}

// Ask puts a question to the user and returns the decision, or ctx's cause when ctx ends. Questions
// of one turn are asked one after the other. A turn that waits for a decision keeps its session
// until its timeout, unless the question has a Key. If it waits for long, the worker may run another
// session in its slot; then Ask returns when the turn has a slot again. A question without a decision within the worker's
// AskTimeout is denied. Without a host the decision is Deny.
func (t *Turn) Ask(ctx context.Context, q Question) (session.Decision, error) {
	if t.Host.Ask == nil {
		return session.Deny, nil
	}
	return t.Host.Ask(ctx, q)
}

// Steers has messages that arrive while the turn runs. It is never closed, and nil unless the agent
// is Steerable.
func (t *Turn) Steers() <-chan Steer { return t.Host.Steers }

// LeaseEnd is how long the worker may trust that it owns the session, on the monotonic clock,
// unless the lease is renewed. Adapters end the processes that they start by then, even if the
// worker is suspended. The zero time means never.
func (t *Turn) LeaseEnd() time.Time {
	if t.Host.Lease == nil {
		return time.Time{}
	}
	return t.Host.Lease.Deadline()
}

// Question asks the user whether the agent may do something.
type Question struct {
	// Key is the question's name within its turn, the same in every run, as a step's. With it Ask may
	// fail with ErrParked after a while: the agent returns that error, the turn gives up its worker, and
	// when the user has decided, it runs again as after an interruption. There Ask with the same Key
	// returns the decision. At most 512 bytes, as a step's. Empty: the turn waits on its worker.
	Key string

	CallID string          // of the tool, if it is one
	Name   string          // the tool's name, or a few words for the action
	Text   string          // more about it, for a person; may be empty
	Input  json.RawMessage // the arguments of the tool; may be empty

	// Approvers are who may decide it, see session.Question. Defaults to the worker's for this agent.
	Approvers []string

	// CanRemember: the agent can act on session.Always.
	CanRemember bool
}
