package engine

import (
	"context"
	"errors"
	"fmt"

	"turnstile/internal/lease"
	"turnstile/pkg/agent"
)

// Why a turn's context ends, besides agent.ErrLeaseLost and what senders request
// (protocol.ErrStopRequested and its like).
var (
	errTimeout  = errors.New("the agent took too long")
	errDrain    = errors.New("the worker drains") // as a drainError
	errPanicked = errors.New("panicked")
	errOver     = errors.New("the turn is over")
)

// drainError is the cause with which a drain ends turns.
type drainError struct{ reason Reason }

func (e drainError) Error() string { return errDrain.Error() + ": " + string(e.reason) }
func (e drainError) Unwrap() error { return errDrain }

// reasonLease is why a turn is given back whose agent was killed by its guardian.
const reasonLease Reason = "lease_lost"

// turnContext ends with the lease, as agents expect it: with agent.ErrLeaseLost.
func turnContext(l *lease.Lease) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	held := l.Context()
	stop := context.AfterFunc(held, func() {
		cancel(fmt.Errorf("%w: %w", agent.ErrLeaseLost, context.Cause(held)))
	})
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}
