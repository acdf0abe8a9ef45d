// Package command runs the programs of agents. Each is started under a guardian,
// which sees to it that nothing of it outlives its turn, its worker or the lease on
// its session; see internal/process/guardian.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"time"

	"turnstile/internal/process/guardian"
	"turnstile/pkg/agent"
)

// exitTempFail is EX_TEMPFAIL of sysexits: try again later.
const exitTempFail = 75

// Spec is what to start.
type Spec struct {
	// Argv is the program and its arguments. No shell is involved. A program
	// without a slash is looked up in PATH.
	Argv []string

	Env []string // NAME=value; nothing else is inherited. See Env
	Dir string   // the working directory; empty: this program's

	// Lease is that of the session. When it runs out unrenewed, the program is
	// killed. Nil: there is none. See Lend.
	Lease agent.Lease

	Logger *slog.Logger // gets the program's stderr, by the line, at debug

	// Hold is how many bytes of stdout the system is to hold until they are read,
	// where it can: for programs that do not wait at their end for what nobody has
	// read yet. Zero: as many as usual, 64 KiB on Linux.
	Hold int

	// Socket makes stdin a socket. Other processes of the user cannot open one through
	// /proc and write into it; the program itself cannot open /dev/stdin then, as shell
	// scripts do.
	Socket bool
}

// Command is a program at work.
type Command struct {
	// Stdin is the caller's to write and, to tell the program that nothing more will
	// come, to close.
	Stdin *os.File

	// Stdout is to be read until its end, which comes soon after the program and
	// what it started are gone: Wait sees to that.
	Stdout io.Reader

	process *guardian.Process
	stdio   pipes
	stderr  stderrTail
	heard   sync.WaitGroup // the reader of stderr
	lender  lender
	resting resting
	once    sync.Once // the first Wait cleans up
}

// Start starts a program. Every error is Retryable. That the program cannot be
// started is mostly told here; what only the guardian finds out is told by Wait.
//
// Wait must be called, or files stay open.
func Start(spec Spec) (*Command, error) {
	path, err := osexec.LookPath(spec.Argv[0])
	if err != nil {
		return nil, notStarted(err)
	}
	c := &Command{}
	if err := c.stdio.open(spec.Socket); err != nil {
		c.stdio.closeAll()
		return nil, notStarted(err)
	}
	if spec.Hold > 0 {
		widen(c.stdio.out.read, spec.Hold)
	}
	g := guardian.Spec{
		Path: path, Args: spec.Argv, Dir: spec.Dir, Env: spec.Env,
		Stdin: c.stdio.in.read, Stdout: c.stdio.out.write, Stderr: c.stdio.err.write,
	}
	if spec.Lease != nil {
		g.Deadline = spec.Lease.Deadline()
	}
	if c.process, err = guardian.Start(g); err != nil {
		c.stdio.closeAll()
		return nil, notStarted(err)
	}
	c.stdio.closeTheirs()
	c.Stdin, c.Stdout = c.stdio.in.write, c.resting.reader(&drainingReader{file: c.stdio.out.read})
	c.stderr.logger = spec.Logger
	c.heard.Go(func() { c.stderr.copyFrom(c.resting.reader(&drainingReader{file: c.stdio.err.read})) })
	c.lender.process = c.process
	c.Lend(spec.Lease)
	return c, nil
}

func notStarted(err error) error {
	return agent.Retryable(fmt.Errorf("could not start the agent: %w", err))
}

// Lend puts the program under another lease, or under none: a program that goes on
// living between two turns is then nobody's. The program must be idle.
func (c *Command) Lend(lease agent.Lease) { c.lender.lend(lease) }

// Interrupt sends SIGINT to the program's process group, and SIGKILL when the grace
// has passed. A second one changes nothing.
func (c *Command) Interrupt(grace time.Duration) { c.process.Interrupt(grace) }

// Kill sends SIGKILL to everything that the program has started.
func (c *Command) Kill() { c.process.Kill() }

// End ends the program because ctx has: at once if the session was lost, for the
// next owner may start its own.
func (c *Command) End(ctx context.Context, grace time.Duration) {
	if errors.Is(context.Cause(ctx), agent.ErrLeaseLost) {
		c.Kill()
		return
	}
	c.Interrupt(grace)
}

// Done is closed when the program and what it has started are gone.
func (c *Command) Done() <-chan struct{} { return c.process.Done() }

// Wait waits for Done. Stdout then ends when what is in it was read; CloseOutput is
// to be called after that.
func (c *Command) Wait() guardian.Status {
	status := c.process.Wait()
	c.once.Do(func() {
		c.lender.end()
		_ = c.Stdin.Close()
		// All writers are gone, except somebody who was handed the files and left
		// the family. What is in the pipes is read, no more.
		_ = c.stdio.out.read.SetReadDeadline(time.Now().Add(drainTime))
		_ = c.stdio.err.read.SetReadDeadline(time.Now().Add(drainTime))
		c.heard.Wait()
		_ = c.stdio.err.read.Close()
		if status.Left > 0 {
			c.stderr.logger.Warn("processes of the agent could not be found or killed; they may run as another user", "count", status.Left)
		}
	})
	return status
}

// CloseOutput closes Stdout. A reader that is at it gets an error.
func (c *Command) CloseOutput() { _ = c.stdio.out.read.Close() }

// Unfit is why a program's end says nothing about its work: it could not be started,
// or was killed by its guardian or with it. Every such error is Retryable, but that of
// a dead guardian's program of which something lives; nil: there is none.
func Unfit(status guardian.Status) error {
	switch {
	case status.StartError != nil:
		return notStarted(status.StartError)
	case status.LeaseExpired:
		return agent.Retryable(fmt.Errorf("the agent was killed: %w", agent.ErrLeaseLost))
	case status.GuardianDied && status.Left > 0:
		return fmt.Errorf("the agent's guardian was killed, and at least %d of its processes may be alive", status.Left)
	case status.GuardianDied:
		return agent.Retryable(errors.New("the agent's guardian was killed, and the agent with it"))
	}
	return nil
}

// Failure is what a program's signal or exit code says, with its last words on
// stderr; nil for exit code 0. 75 is Retryable. Call it after Wait.
func (c *Command) Failure(status guardian.Status) error {
	switch {
	case status.Signal != 0:
		return c.WithStderr("killed by signal: " + status.Signal.String())
	case status.Code == exitTempFail:
		return agent.Retryable(c.WithStderr("exit status 75"))
	case status.Code != 0:
		return c.WithStderr(fmt.Sprintf("exit status %d", status.Code))
	}
	return nil
}

// WithStderr is an error with the program's last words on stderr, if there are any.
// Call it after Wait.
func (c *Command) WithStderr(what string) error { return c.LastWords(errors.New(what)) }

// Stderr is the end of what the program wrote to stderr, some KiB, for those who
// look for a certain sentence in it. Call it after Wait.
func (c *Command) Stderr() string { return c.stderr.all() }

// LastWords is err with the program's last words on stderr behind it, if there are
// any and it does not end with them already; nil stays nil. Before Wait they are the
// last ones so far.
func (c *Command) LastWords(err error) error {
	last := c.stderr.last()
	if err == nil || last == "" || strings.HasSuffix(err.Error(), last) {
		return err
	}
	return fmt.Errorf("%w: %s", err, last)
}

// ForgetStderr is for a program that goes on after a turn has ended well: what it had
// to say about that one is not the reason of a later failure.
func (c *Command) ForgetStderr() { c.stderr.forget() }

// Interrupted is the error of a turn whose context has ended.
func Interrupted(ctx context.Context) error {
	return fmt.Errorf("the agent was interrupted: %w", context.Cause(ctx))
}
