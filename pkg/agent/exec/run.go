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

	"turnstile/internal/command"
	"turnstile/internal/guardian"
	"turnstile/internal/gulp"
	"turnstile/pkg/agent"
)

// Run runs the command for one turn. It returns when the command, whatever it
// started and its guardian are gone.
func (a *Agent) Run(ctx context.Context, turn agent.Turn, emit func(agent.Event)) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, command.Interrupted(ctx)
	}
	input, err := a.input(turn)
	if err != nil {
		return agent.Result{}, err
	}
	logger := a.config.Logger.With("session", turn.Session, "turn", turn.ID, "fence", turn.Fence)
	lease, _ := agent.LeaseFrom(ctx)
	c, err := command.Start(command.Spec{
		Argv: a.config.Command, Dir: a.config.Dir, Env: a.env.ForTurn(os.Environ(), turn), Lease: lease, Logger: logger,
	})
	if err != nil {
		return agent.Result{}, err
	}
	defer c.CloseOutput()

	r := &run{
		Command: c, grace: a.config.Grace, patience: a.patience,
		ended: make(chan struct{}), closed: make(chan struct{}),
	}
	steers := newSteering(turn.Steers)
	steerCtx, stopSteers := context.WithCancel(ctx)
	defer stopSteers()
	asks := &asking{ask: turn.Ask, ctx: steerCtx, w: c.Stdin}
	r.lines = eventLines{emit: emit, logger: logger, steers: steers, asks: asks, onEnd: func() {
		stopSteers()
		_ = c.Stdin.Close() // it may be waiting for this
		close(r.ended)
	}}
	var reader, writer sync.WaitGroup
	bad := make(chan error, 1)
	reader.Go(func() {
		out := gulp.New(c.Stdout, c.Done())
		var err error
		if a.config.Format == JSONL {
			err = r.lines.read(out)
			r.said = r.lines.said
		} else {
			text := textReply{emit: emit}
			err = text.copyFrom(out)
			r.said = text.said
		}
		stopSteers() // nothing can be acknowledged any more
		var line *command.LineError
		switch {
		case err == nil:
			close(r.closed)
		case errors.As(err, &line) && line.Cut:
			r.broken = err
			close(r.closed)
		default:
			bad <- err
			_, _ = io.Copy(io.Discard, c.Stdout)
		}
	})
	writer.Go(func() {
		// A command that does not read it all is free to.
		_, err := c.Stdin.Write(input)
		if a.config.Format == Text {
			_ = c.Stdin.Close()
		} else if err == nil {
			steers.feed(steerCtx, c.Stdin)
			if ctx.Err() == nil {
				_ = c.Stdin.Close() // its output has ended: it may be waiting for this
			}
		}
	})

	status := r.supervise(ctx, bad)
	writer.Wait()
	reader.Wait()
	asks.open.Wait()
	if r.cause == nil {
		select {
		case r.cause = <-bad:
		default:
		}
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

var (
	errSilent = errors.New("the agent ended without a word")
	errWentOn = errors.New("the command closed its output and went on")
)

// run is one turn's command at work.
type run struct {
	*command.Command
	grace    time.Duration
	patience time.Duration // with a command that has closed its stdout
	ended    chan struct{} // closed at the result or error line
	closed   chan struct{} // closed when stdout has ended
	lines    eventLines

	// cause is why the command was told to stop, if it was. The first counts.
	cause    error
	lingered bool // it was told to, because it did not exit after its result
	wentOn   bool // it was told to, because it did not exit after its stdout's end

	// broken is a last line without an end that is no event, or half a character. The
	// command may have died there, so its exit code comes first.
	broken error

	said bool // there was something for the user in its output, or an explicit end
}

// supervise waits for the command's end and sees to it that the command stops when
// it should.
func (r *run) supervise(ctx context.Context, bad <-chan error) guardian.Status {
	done, ended, closed := ctx.Done(), r.ended, r.closed
	var linger, goingOn <-chan time.Time
	for {
		select {
		case <-r.Done():
			return r.Wait()
		case <-done:
			done = nil
			if r.cause == nil {
				r.cause = command.Interrupted(ctx)
			}
			r.End(ctx, r.grace)
		case err := <-bad:
			bad = nil
			if r.cause == nil {
				r.cause = err
			}
			r.Interrupt(r.grace)
		case <-ended:
			ended = nil
			linger = time.After(max(r.grace, time.Second))
		case <-linger:
			r.lingered = true
			r.Interrupt(r.grace)
		case <-closed:
			closed = nil
			if !r.lines.ended { // or else it lingers
				goingOn = time.After(r.patience)
			}
		case <-goingOn:
			r.wentOn = true
			r.Interrupt(r.grace)
		}
	}
}

// outcome is how the turn ended. Every failure has the command's last words on stderr.
func (r *run) outcome(status guardian.Status) (agent.Result, error) {
	unfit, exit := command.Unfit(status), r.Failure(status)
	var err error
	switch {
	case r.cause != nil:
		err = r.cause
	case unfit != nil:
		err = unfit
	case r.lines.failure != nil:
		err = r.lines.failure
	case r.lingered:
	case r.wentOn && (exit != nil || !r.said):
		err = errWentOn
	case exit != nil:
		return agent.Result{}, exit
	case r.broken != nil:
		err = r.broken
	case !r.said:
		err = errSilent
	}
	if err != nil {
		return agent.Result{}, r.LastWords(err)
	}
	return r.lines.result, nil
}
