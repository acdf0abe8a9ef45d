// Package command runs the programs of agents. Each runs under a guardian, so that no process of it
// outlives its turn, its worker or the lease on its session; see internal/process/guardian.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"turnstile/internal/process/guardian"
	"turnstile/pkg/agent"
)

// exitTempFail is EX_TEMPFAIL of sysexits: try again later.
const exitTempFail = 75

// Spec describes a program to start.
type Spec struct {
	// Argv is the program and its arguments. No shell is involved. A program without a slash is
	// searched in PATH.
	Argv []string

	Env    []string // NAME=value; nothing else is inherited; see Env
	Chosen []string // further ones, which the agent has chosen; they replace those of Env
	Dir    string   // the working directory; empty: this program's

	// Lease is the session's. The program is killed when it ends. Nil: no lease. See Lend.
	Lease agent.Lease

	Logger *slog.Logger // gets the program's stderr, line by line, at level debug

	// PipeBytes is how many bytes of unread stdout the system should hold, where it can. It is for
	// programs that exit before all is read. Zero: the system's default, 64 KiB on Linux.
	PipeBytes int

	// Home is the HOME of an isolated program. Empty: Env has it.
	Home string

	confinement   *Confinement
	wrapper, kill []string

	// Socket makes stdin a socket. Other processes of the user cannot open a socket through /proc
	// and write into it. But the program itself cannot open /dev/stdin then, as shell scripts do.
	Socket bool
}

// Command is a running program.
type Command struct {
	// Stdin is for the caller to write. Close it after the last input.
	Stdin *os.File

	// Stdout must be read until its end. Wait makes it end soon after the end of the program and
	// its children.
	Stdout io.Reader

	process    *guardian.Process
	stdio      pipes
	stderr     stderrTail
	stderrRead sync.WaitGroup // the reader of stderr
	lender     lender
	resting    resting
	once       sync.Once // the first Wait cleans up
}

// Start starts a program. Every error is agent.Unavailable. Failures that only the guardian notices
// are in the Status of Wait: see Unfit.
//
// Wait must be called, or files stay open.
func Start(spec Spec) (*Command, error) {
	path, argv, env, err := spec.program()
	if err != nil {
		return nil, notStarted(err, false)
	}
	c := &Command{}
	if err := c.stdio.open(spec.Socket); err != nil {
		c.stdio.closeAll()
		return nil, notStarted(err, false)
	}
	if spec.PipeBytes > 0 {
		widen(c.stdio.out.read, spec.PipeBytes)
	}
	g := guardian.Spec{
		Path: path, Args: argv, Dir: spec.Dir, Env: env, Kill: spec.kill,
		Stdin: c.stdio.in.read, Stdout: c.stdio.out.write, Stderr: c.stdio.err.write, Launcher: spec.launched(),
	}
	if spec.Lease != nil {
		g.Deadline = spec.Lease.Deadline()
	}
	if c.process, err = guardian.Start(g); err != nil {
		c.stdio.closeAll()
		return nil, notStarted(err, false)
	}
	c.stdio.closeTheirs()
	c.Stdin, c.Stdout = c.stdio.in.write, c.resting.reader(&drainingReader{file: c.stdio.out.read})
	c.stderr.logger = spec.Logger
	c.stderrRead.Go(func() { c.stderr.copyFrom(c.resting.reader(&drainingReader{file: c.stdio.err.read})) })
	c.lender.process = c.process
	c.Lend(spec.Lease)
	return c, nil
}

// notStarted is the error of a program that was not started. own: its arguments, its variables or its session's
// directory are at fault, and not this machine.
func notStarted(err error, own bool) error {
	err = fmt.Errorf("could not start the agent: %w", err)
	if own {
		return agent.Retryable(err)
	}
	return agent.Unavailable(err)
}

// Lend puts the program under another lease, or under none. It is for programs that keep running
// between turns. The program must be idle.
func (c *Command) Lend(lease agent.Lease) { c.lender.lend(lease) }

// Interrupt sends SIGINT to the program's process group, and SIGKILL after the grace. Further
// calls change nothing.
func (c *Command) Interrupt(grace time.Duration) { c.process.Interrupt(grace) }

// Kill sends SIGKILL to everything that the program has started.
func (c *Command) Kill() { c.process.Kill() }

// End ends the program after ctx ended: at once if the lease was lost, because the next owner may
// start another one.
func (c *Command) End(ctx context.Context, grace time.Duration) {
	if errors.Is(context.Cause(ctx), agent.ErrLeaseLost) {
		c.Kill()
		return
	}
	c.Interrupt(grace)
}

// Done is closed after the end of the program and everything that it started.
func (c *Command) Done() <-chan struct{} { return c.process.Done() }

// Wait waits for Done. After that Stdout ends at its last byte. Call CloseOutput after reading it.
func (c *Command) Wait() guardian.Status {
	status := c.process.Wait()
	c.once.Do(func() {
		c.lender.end()
		_ = c.Stdin.Close()
		// No writers are left, except processes that inherited the files and left the family. Only
		// the present content of the pipes is read.
		_ = c.stdio.out.read.SetReadDeadline(time.Now().Add(drainTime))
		_ = c.stdio.err.read.SetReadDeadline(time.Now().Add(drainTime))
		c.stderrRead.Wait()
		_ = c.stdio.err.read.Close()
		if status.Left > 0 {
			c.stderr.logger.Warn("processes of the agent could not be found or killed; they may run as another user", "count", status.Left)
		}
	})
	return status
}

// CloseOutput closes Stdout. A read in progress fails.
func (c *Command) CloseOutput() { _ = c.stdio.out.read.Close() }

// Unfit returns an error if a program's end says nothing about its work, and otherwise nil. That is
// so if the program could not be started, or was killed by its guardian or with it. The error is
// agent.Retryable, unless processes of a dead guardian's program are still alive, and
// agent.Unavailable if this machine could not start the program.
func Unfit(status guardian.Status) error {
	switch {
	case status.StartError != nil:
		return notStarted(status.StartError, status.OwnFault)
	case status.LeaseExpired:
		return agent.Retryable(fmt.Errorf("the agent was killed: %w", agent.ErrLeaseLost))
	case status.GuardianDied && status.Left > 0:
		return fmt.Errorf("the agent's guardian was killed, and at least %d of its processes may be alive", status.Left)
	case status.GuardianDied:
		return agent.Retryable(errors.New("the agent's guardian was killed, and the agent with it"))
	}
	return nil
}

// Failure returns the error of a program's signal or exit code, with the end of its stderr; nil for
// exit code 0. The error of exit code 75 is agent.Retryable. Call it after Wait.
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

// WithStderr makes an error with the end of the program's stderr, if there is any. Call it after
// Wait.
func (c *Command) WithStderr(what string) error { return c.LastWords(errors.New(what)) }

// Stderr returns the last few KiB of the program's stderr, to search for a certain sentence. Call
// it after Wait.
func (c *Command) Stderr() string { return c.stderr.all() }

// LastWords adds the end of the program's stderr to err, unless it is empty or err ends with it
// already. nil stays nil. Before Wait it adds the stderr written so far.
func (c *Command) LastWords(err error) error {
	last := c.stderr.last()
	if err == nil || last == "" || strings.HasSuffix(err.Error(), last) {
		return err
	}
	return fmt.Errorf("%w: %s", err, last)
}

// ForgetStderr forgets the stderr of a successful turn. A program that keeps running may fail later
// for another reason.
func (c *Command) ForgetStderr() { c.stderr.forget() }

// Interrupted returns the error of a turn after its context ended.
func Interrupted(ctx context.Context) error {
	return fmt.Errorf("the agent was interrupted: %w", context.Cause(ctx))
}
