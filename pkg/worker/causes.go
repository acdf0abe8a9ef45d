package worker

import (
	"context"
	"errors"
	"fmt"

	"turnstile/internal/protocol/lease"
	"turnstile/pkg/agent"
	"turnstile/pkg/resume"
)

// Causes of the end of a turn's context, besides agent.ErrLeaseLost and the requests of senders
// (protocol.ErrStopRequested and others).
var (
	errTimeout  = errors.New("the agent took too long")
	errDrain    = errors.New("the worker drains") // as a drainError
	errPanicked = errors.New("panicked")
	errOver     = errors.New("the turn is over")
)

// drainError is the cause of a turn that a drain ends.
type drainError struct{ reason reason }

func (e drainError) Error() string { return errDrain.Error() + ": " + string(e.reason) }
func (e drainError) Unwrap() error { return errDrain }

// reasonLease is the reason of a requeue after a guardian has killed the agent.
const reasonLease reason = resume.ReasonLeaseLost

// turnContext makes a context that ends with the lease. Its cause is then agent.ErrLeaseLost, as
// agents expect.
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
