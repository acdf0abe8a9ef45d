package command

import (
	"fmt"
	"log/slog"
	"runtime/debug"
)

// Contained returns the error of f. It turns a panic in f into an error and logs the stack:
// output of one agent must not end the process, which also runs other agents' turns.
func Contained(logger *slog.Logger, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			logger.Error("what the agent wrote made its reader panic", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("it made its reader panic: %v", p)
		}
	}()
	return f()
}
