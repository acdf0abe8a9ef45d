package command

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Contained is the error of f, or a panic in it as one, of which the log has the stack.
// What an agent writes must end no more than its turn: the same process runs the turns of
// others.
func Contained(logger *slog.Logger, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			logger.Error("what the agent wrote made its reader panic", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("it made its reader panic: %v", p)
		}
	}()
	return f()
}
