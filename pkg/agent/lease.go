package agent

import (
	"context"
	"errors"
	"time"
)

// Lease is how long the worker may still trust that the session is its own.
// The worker's own lease is one.
type Lease interface {
	// Deadline is when the lease ends unless it is renewed, read on the
	// monotonic clock. It moves forward with every renewal. The zero time means
	// that the lease does not end. It is called from another goroutine than the
	// one that renews.
	Deadline() time.Time
}

// ErrLeaseLost says that the session was no longer the worker's.
//
// A worker that has lost the session cancels the turn with a cause that wraps
// it: the agent is then killed without any grace, for the next owner may start
// its own. An adapter returns it, marked Retryable, when a guardian had to kill
// the agent because no renewal came.
var ErrLeaseLost = errors.New("the lease on the session was lost")

type leaseKey struct{}

// WithLease hands the session's lease to the agent. Adapters that start
// processes see to it that none outlives it, even when the worker is stopped.
func WithLease(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseFrom is the lease that WithLease put into ctx, if there is one.
func LeaseFrom(ctx context.Context) (Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(Lease)
	return l, ok && l != nil
}
