package agent

import (
	"context"
	"errors"
	"time"
)

// Lease is for how long the worker may trust that it owns the session. The worker's own lease
// implements it.
type Lease interface {
	// Deadline is when the lease ends unless it is renewed, on the monotonic clock. Each renewal
	// moves it forward. The zero time means that the lease does not end. Deadline may be called
	// while another goroutine renews the lease.
	Deadline() time.Time
}

// ErrLeaseLost says that the worker no longer owned the session.
//
// A worker that has lost the session cancels the turn with a cause that wraps ErrLeaseLost. The
// agent is then killed without grace, because the next owner may start its own. An adapter returns
// ErrLeaseLost, marked Retryable, when a guardian killed the agent because no renewal came.
var ErrLeaseLost = errors.New("the lease on the session was lost")

type leaseKey struct{}

// WithLease hands the session's lease to the agent. Adapters that start processes end them with the
// lease, even when the worker is suspended.
func WithLease(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseFrom returns the lease that WithLease put into ctx, if there is one.
func LeaseFrom(ctx context.Context) (Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(Lease)
	return l, ok && l != nil
}
