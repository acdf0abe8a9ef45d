package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"turnstile/internal/process/command"
	"turnstile/internal/process/paced"
	"turnstile/pkg/agent"
)

// Run runs the command for one turn. It returns when the command, everything that it started and
// its guardian are gone.
func (a *Agent) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, command.Interrupted(ctx)
	}
	input, err := a.input(turn)
	if err != nil {
		return agent.Result{}, err
	}
	logger := a.config.Logger.With("session", turn.Session, "turn", turn.ID, "fence", turn.Fence)
	spec, err := a.isolator.Apply(command.Spec{
		Argv: a.config.Command, Dir: a.config.Dir, Env: a.env.ForTurn(os.Environ(), turn), Lease: turn.Host.Lease, Logger: logger,
	}, turn.Session)
	if err != nil {
		return agent.Result{}, err
	}
	c, err := command.Start(spec)
	if err != nil {
		return agent.Result{}, err
	}
	defer c.CloseOutput()

	r := &run{Command: c}
	bad, ended, closed := make(chan error, 1), make(chan struct{}, 1), make(chan struct{})
	steers := newSteering(turn.Steers())
	steerCtx, stopSteers := context.WithCancel(ctx)
	defer stopSteers()
	over := func(last func()) {
		select {
		case ended <- struct{}{}:
		default:
		}
		last()
		stopSteers()
		_ = c.Stdin.Close() // it may be waiting for this
	}
	steps := &steps{turn: turn, ctx: steerCtx, w: c.Stdin, begun: map[string]agent.StepSpec{}}
	asks := &asking{turn: turn, ctx: steerCtx, w: c.Stdin, steps: steps, onEnd: over}
	r.lines = eventLines{emit: turn.Emit, logger: logger, steers: steers, asks: asks, steps: steps, onEnd: func() { over(func() {}) }}
	var pipes sync.WaitGroup
	pipes.Go(func() {
		out := paced.New(c.Stdout, c.Done())
		err := command.Contained(logger, func() (err error) {
			if a.config.Format == JSONL {
				err = r.lines.read(out)
				r.hasOutput = r.lines.hasOutput
			} else {
				text := textReply{emit: turn.Emit}
				err = text.copyFrom(out)
				r.hasOutput = text.hasOutput
			}
			return err
		})
		stopSteers() // nothing can be acknowledged any more
		var line *command.LineError
		switch {
		case err == nil:
			close(closed)
		case errors.As(err, &line) && line.Cut:
			r.broken = err
			close(closed)
		default:
			bad <- err
			_, _ = io.Copy(io.Discard, c.Stdout)
		}
	})
	pipes.Go(func() {
		// A command need not read all of it.
		_, err := c.Stdin.Write(input)
		if a.config.Format == Text {
			_ = c.Stdin.Close()
		} else if err == nil {
			steers.feed(steerCtx, c.Stdin)
			if ctx.Err() == nil {
				_ = c.Stdin.Close() // its output is closed: it may be waiting for this
			}
		}
	})

	was := c.Supervise(ctx, command.Watch{
		Grace: a.config.Grace, Bad: bad, Ended: ended, Linger: max(a.config.Grace, time.Second),
		Closed: closed, Patience: a.patience, Pipes: &pipes,
	})
	asks.open.Wait()
	steps.open.Wait()
	return r.outcome(was)
}

// input is the text for the command's stdin.
func (a *Agent) input(turn *agent.Turn) ([]byte, error) {
	if a.config.Format == Text {
		return []byte(turn.Text()), nil
	}
	data, err := json.Marshal(turn)
	if err != nil {
		return nil, fmt.Errorf("encode the turn: %w", err)
	}
	return append(data, '\n'), nil
}

var (
	errSilent = errors.New("the agent ended without a reply")
	errWentOn = errors.New("the command closed its output and kept running")
)

// run is one turn's command at work.
type run struct {
	*command.Command
	lines eventLines

	// broken is the error of an incomplete last line or character. The command may have died there,
	// so its exit code counts first.
	broken error

	hasOutput bool // its output had something for the user, or an explicit end
}

// outcome is how the turn ended. Every failure ends with the last lines of the command's stderr.
func (r *run) outcome(was command.Watched) (agent.Result, error) {
	unfit, exit := command.Unfit(was.Status), r.Failure(was.Status)
	var err error
	switch {
	case r.lines.failed() != nil:
		return agent.Result{}, r.lines.failed()
	case was.Cause != nil:
		err = was.Cause
	case unfit != nil:
		err = unfit
	case r.lines.failure != nil:
		err = r.lines.failure
	case was.Lingered: // its result stands
	case was.WentOn && (exit != nil || !r.hasOutput):
		err = errWentOn
	case exit != nil:
		return agent.Result{}, exit
	case r.broken != nil:
		err = r.broken
	case !r.hasOutput:
		err = errSilent
	}
	if err != nil {
		return agent.Result{}, r.LastWords(err)
	}
	return r.lines.result, nil
}
