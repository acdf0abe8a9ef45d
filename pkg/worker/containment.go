package worker

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
)

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
