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
			logger.Error("reading the agent's output panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("reading it panicked: %v", p)
		}
	}()
	return f()
}
