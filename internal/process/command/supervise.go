package command

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"turnstile/internal/process/guardian"
)

// ClosedPatience is how long a program that has closed its stdout may go on, unless its grace is
// longer: it can produce no more output.
const ClosedPatience = 5 * time.Second

// Watch is the input with which Supervise observes a program during a turn. Others write to the
// channels; a nil channel is never ready.
type Watch struct {
	Grace time.Duration // from SIGINT to SIGKILL when the program is interrupted

	// Bad receives an error about the program's output. The program is then interrupted.
	Bad <-chan error

	// Ended receives a value when the program reports the turn's end, and with all its output
	// after that. A program that is then silent for Linger is interrupted.
	Ended  <-chan struct{}
	Linger time.Duration

	// Closed is closed at the end of the program's stdout. A program that goes on for Patience
	// after that, and has not reported the turn's end, is interrupted.
	Closed   <-chan struct{}
	Patience time.Duration

	// Pipes counts the goroutines that read and write the program's pipes. They end after the
	// program.
	Pipes *sync.WaitGroup
}

// Watched is the result of Supervise.
type Watched struct {
	guardian.Status

	// Cause is the first reason for which the program was interrupted, or nil: the turn's context
	// ended, or an error from Bad.
	Cause error

	// Lingered reports that the program was interrupted after it had reported the turn's end. The
	// turn counts as ended and need not run again, even if its context ended then.
	Lingered bool

	WentOn bool // it was interrupted because it did not exit after closing its stdout
}

// Supervise waits for the program's end. It interrupts the program when w or ctx requires that.
func (c *Command) Supervise(ctx context.Context, w Watch) (was Watched) {
	done, closed := ctx.Done(), w.Closed
	var linger, patience <-chan time.Time
	ended := func() {
		linger, patience = time.After(w.Linger), nil
	}
	over := func() bool { // also if the end was reported just now
		select {
		case <-w.Ended:
			ended()
		default:
		}
		return linger != nil
	}
	for {
		select {
		case <-c.Done():
			was.Status = c.Wait()
			w.Pipes.Wait()
			select {
			case err := <-w.Bad: // found in the rest of its output
				if was.Cause == nil {
					was.Cause = err
				}
			default:
			}
			return was
		case <-done:
			done = nil
			if over() {
				was.Lingered = true
			} else if was.Cause == nil {
				was.Cause = Interrupted(ctx)
			}
			c.End(ctx, w.Grace)
		case err := <-w.Bad:
			if was.Cause == nil {
				was.Cause = err
			}
			c.Interrupt(w.Grace)
		case <-w.Ended:
			ended()
		case <-linger:
			was.Lingered = true
			c.Interrupt(w.Grace)
		case <-closed:
			closed = nil
			if !over() {
				patience = time.After(w.Patience)
			}
		case <-patience:
			was.WentOn = true
			c.Interrupt(w.Grace)
		}
	}
}

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
