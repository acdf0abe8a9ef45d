package command

import (
	"context"
	"sync"
	"time"

	"turnstile/internal/process/guardian"
)

// ClosedPatience is how long a program that has closed its stdout may go on, unless
// its grace is longer: nothing more can come of it.
const ClosedPatience = 5 * time.Second

// Watch is what is known of a program at its work on a turn. The channels have other
// writers; those that are nil never say anything.
type Watch struct {
	Grace time.Duration // from SIGINT to SIGKILL, for one that is told to stop

	// Bad gets an error about the program's output: it is told to stop.
	Bad <-chan error

	// Ended gets something when the program says that the turn has ended, and with
	// whatever it says after that. One that is then silent for Linger is told to stop.
	Ended  <-chan struct{}
	Linger time.Duration

	// Closed is closed when the program's stdout has ended. One that goes on for
	// Patience, and had not said that the turn has ended, is told to stop.
	Closed   <-chan struct{}
	Patience time.Duration

	// Pipes are whoever reads and writes the program's pipes: they end behind it.
	Pipes *sync.WaitGroup
}

// Watched is what became of it.
type Watched struct {
	guardian.Status

	// Cause is why the program was told to stop, if it was: the turn's context ended, or
	// what Bad had to say. The first counts.
	Cause error

	// Lingered: it was told to stop after it had said that the turn has ended. That
	// stands, and the turn need not be run again, even if its context ended then.
	Lingered bool

	WentOn bool // it was told to stop, for it did not exit after its stdout's end
}

// Supervise waits for the program's end, and sees to it that it comes when it should.
func (c *Command) Supervise(ctx context.Context, w Watch) (was Watched) {
	done, closed := ctx.Done(), w.Closed
	var linger, patience <-chan time.Time
	ended := func() {
		linger, patience = time.After(w.Linger), nil
	}
	over := func() bool { // be it that it was said just now
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
