package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"sync"
	"time"

	"turnstile/internal/guardian"
	"turnstile/pkg/agent"
)

// exitTempFail is EX_TEMPFAIL of sysexits: try again later.
const exitTempFail = 75

// Run runs the command for one turn. It returns when the command, whatever it
// started and its guardian are gone.
func (a *Agent) Run(ctx context.Context, turn agent.Turn, emit func(agent.Event)) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, interrupted(ctx)
	}
	input, err := a.input(turn)
	if err != nil {
		return agent.Result{}, err
	}
	path, err := osexec.LookPath(a.config.Command[0])
	if err != nil {
		return agent.Result{}, agent.Retryable(fmt.Errorf("could not start the agent: %w", err))
	}
	var stdio pipes
	defer stdio.closeAll()
	if err := stdio.open(); err != nil {
		return agent.Result{}, agent.Retryable(fmt.Errorf("could not start the agent: %w", err))
	}
	lease, leased := agent.LeaseFrom(ctx)
	spec := guardian.Spec{
		Path: path, Args: a.config.Command, Dir: a.config.Dir,
		Env:   a.env.forTurn(os.Environ(), turn),
		Stdin: stdio.in.read, Stdout: stdio.out.write, Stderr: stdio.err.write,
	}
	if leased {
		spec.Deadline = lease.Deadline()
	}
	process, err := guardian.Start(spec)
	if err != nil {
		return agent.Result{}, agent.Retryable(fmt.Errorf("could not start the agent: %w", err))
	}
	stdio.closeTheirs()

	logger := a.config.Logger.With("session", turn.Session, "turn", turn.ID, "fence", turn.Fence)
	r := &run{process: process, grace: a.config.Grace, ended: make(chan struct{})}
	r.stderr.logger = logger
	steers := newSteering(turn.Steers)
	steerCtx, stopSteers := context.WithCancel(ctx)
	defer stopSteers()
	r.lines = eventLines{emit: emit, logger: logger, steers: steers, onEnd: func() {
		stopSteers()
		_ = stdio.in.write.Close() // it may be waiting for this
		close(r.ended)
	}}
	var readers, writer sync.WaitGroup
	bad := make(chan error, 1)
	readers.Go(func() {
		out := &drainingReader{file: stdio.out.read}
		var err error
		if a.config.Format == JSONL {
			err = r.lines.copyFrom(out)
		} else {
			text := textReply{emit: emit}
			err = text.copyFrom(out)
		}
		stopSteers() // nothing can be acknowledged any more
		switch {
		case err == nil:
		case r.lines.cut:
			r.broken = err
		default:
			bad <- err
			_, _ = io.Copy(io.Discard, out)
		}
	})
	readers.Go(func() { r.stderr.copyFrom(&drainingReader{file: stdio.err.read}) })
	writer.Go(func() {
		// A command that does not read it all is free to.
		_, err := stdio.in.write.Write(input)
		if a.config.Format == Text {
			_ = stdio.in.write.Close()
		} else if err == nil {
			steers.feed(steerCtx, stdio.in.write)
		}
	})

	status := r.supervise(ctx, lease, bad)

	// All writers are gone, except somebody who was handed the files and left
	// the family. What is in the pipes is read, no more.
	_ = stdio.in.write.Close()
	_ = stdio.out.read.SetReadDeadline(time.Now().Add(drainTime))
	_ = stdio.err.read.SetReadDeadline(time.Now().Add(drainTime))
	writer.Wait()
	readers.Wait()
	if r.cause == nil {
		select {
		case r.cause = <-bad:
		default:
		}
	}
	if status.Left > 0 {
		logger.Warn("processes that the agent started as another user could not be killed", "count", status.Left)
	}
	return r.outcome(status)
}

// input is what the command finds on its stdin.
func (a *Agent) input(turn agent.Turn) ([]byte, error) {
	if a.config.Format == Text {
		return []byte(turn.Text()), nil
	}
	data, err := json.Marshal(turn)
	if err != nil {
		return nil, fmt.Errorf("encode the turn: %w", err)
	}
	return append(data, '\n'), nil
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("the agent was interrupted: %w", context.Cause(ctx))
}

// run is one turn's command at work.
type run struct {
	process *guardian.Process
	grace   time.Duration
	ended   chan struct{} // closed at the result or error line
	lines   eventLines
	stderr  stderrTail

	// cause is why the command was told to stop, if it was. The first counts.
	cause    error
	lingered bool // it was told to, because it did not exit after its result

	// broken is a last line without an end that is no event. The command may
	// have died there, so its exit code comes first.
	broken error
}

// supervise waits for the command's end, passes the lease's renewals on and sees
// to it that the command stops when it should.
func (r *run) supervise(ctx context.Context, lease agent.Lease, bad <-chan error) guardian.Status {
	done, ended := ctx.Done(), r.ended
	var linger <-chan time.Time
	renewal := newLeaseFeed(lease)
	defer renewal.timer.Stop()
	for {
		select {
		case <-r.process.Done():
			return r.process.Wait()
		case <-done:
			done = nil
			if r.cause == nil {
				r.cause = interrupted(ctx)
			}
			if errors.Is(context.Cause(ctx), agent.ErrLeaseLost) {
				r.process.Kill()
			} else {
				r.process.Interrupt(r.grace)
			}
		case err := <-bad:
			bad = nil
			if r.cause == nil {
				r.cause = err
			}
			r.process.Interrupt(r.grace)
		case <-ended:
			ended = nil
			linger = time.After(max(r.grace, time.Second))
		case <-linger:
			r.lingered = true
			r.process.Interrupt(r.grace)
		case <-renewal.timer.C:
			renewal.feed(r.process)
		}
	}
}

func (r *run) outcome(status guardian.Status) (agent.Result, error) {
	var err error
	switch {
	case r.cause != nil:
		err = r.cause
	case status.StartError != nil:
		err = agent.Retryable(fmt.Errorf("could not start the agent: %w", status.StartError))
	case status.LeaseExpired:
		err = agent.Retryable(fmt.Errorf("the agent was killed: %w", agent.ErrLeaseLost))
	case status.GuardianDied:
		err = agent.Retryable(errors.New("the agent's guardian was killed, and the agent with it"))
	case r.lines.failure != nil:
		err = r.lines.failure
	case r.lingered:
	case status.Signal != 0:
		err = r.withStderr(fmt.Sprintf("killed by signal: %s", status.Signal))
	case status.Code == exitTempFail:
		err = agent.Retryable(r.withStderr("exit status 75"))
	case status.Code != 0:
		err = r.withStderr(fmt.Sprintf("exit status %d", status.Code))
	case r.broken != nil:
		err = r.broken
	}
	if err != nil {
		return agent.Result{}, err
	}
	return r.lines.result, nil
}

func (r *run) withStderr(what string) error {
	if last := r.stderr.last(); last != "" {
		return fmt.Errorf("%s: %s", what, last)
	}
	return errors.New(what)
}
