package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

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
)

// drainError is the cause of a turn that a drain ends.
type drainError struct{ reason reason }

func (e drainError) Error() string { return errDrain.Error() + ": " + string(e.reason) }
func (e drainError) Unwrap() error { return errDrain }

// reasonLease is why a turn is left after a guardian has killed its agent.
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

// containment turns a panic into the failure of its turn. The panic must not end the process,
// which runs other turns: the message that caused it would end the next worker, too.
type containment struct {
	log  *slog.Logger
	fail context.CancelCauseFunc // ends the turn
}

// contain is deferred by a turn's further goroutines.
func (c containment) contain(what string) {
	if p := recover(); p != nil {
		c.fail(c.panicked(what, p))
	}
}

// panicked logs a panic with its stack, and returns the error with which the turn fails.
func (c containment) panicked(what string, p any) error {
	c.log.Error("a turn panicked, so it fails", "in", what, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("%s %w: %v", what, errPanicked, p)
}
