package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"turnstile/internal/process/command"
	"turnstile/internal/process/guardian"
	"turnstile/internal/process/paced"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// recapLimit is how many bytes of the transcript a new session of the program receives.
const recapLimit = 64 << 10

// unreadOutput is how much of a program's output may be unread when it exits, and within a pause
// of the reader: see pump. With more, many agents would reach the system's limit for the pipes of one user.
const unreadOutput = 256 << 10

// Run runs the program for one turn, once more with a new session if it does not know the one to resume, and once
// more for each of its calls that the user has decided. It returns when the program, everything that it started and its guardian are gone.
func (a *Agent) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, command.Interrupted(ctx)
	}
	dir, err := a.workspace(turn.Session)
	if err != nil {
		return agent.Result{}, err
	}
	logger := a.config.Logger.With("session", turn.Session, "turn", turn.ID, "fence", turn.Fence)
	if len(turn.Kept) > 0 {
		whole := *turn
		whole.History = slices.Concat(turn.History, turn.Kept)
		turn = &whole
	}
	known := stateOf(a.kind, turn.State)
	if known.Failures >= command.MostFailures {
		logger.Info("the agent's session fails each time, a new one begins with a recap", "agent_session", known.Session)
		turn.Emit(agent.Event{Type: session.EventNotice, Text: command.FreshSession})
		known = state{Agent: a.kind}
	}
	for decided := ""; ; {
		reply, ended, asked := answer{}, func() error { return nil }, false
		if d := known.Deferred; d != nil && d.Messages == idsOf(turn) {
			if d.ID == decided {
				return agent.Result{}, fmt.Errorf("%s: %w", a.kind, errDeferredAgain)
			}
			if reply, ended, asked, err = d.decide(ctx, turn); err != nil {
				return agent.Result{}, err
			}
			decided = d.ID
		}
		known.Deferred = nil
		spec := command.Spec{
			Argv: a.program.argv(a.config.Command, a.config.Model, known.Session),
			Dir:  dir, Env: a.environ(turn), Lease: turn.Host.Lease, Logger: logger, PipeBytes: unreadOutput,
		}
		if len(a.config.Ask) > 0 {
			spec.Argv, spec.Env = append(spec.Argv, claudeAsks(a.config.Ask, reply)...), append(spec.Env, claudeAskEnv)
		}
		if spec, err = a.isolator.Apply(spec, turn.Session); err != nil {
			return agent.Result{}, err
		}
		r := &run{
			program: a.program, kind: a.kind, resume: known.Session,
			watch: command.Watch{Grace: a.config.Grace, Linger: a.linger, Patience: a.patience},
		}
		text := ""
		if !asked {
			text = a.program.goOn(spec, known, turn)
		}
		switch {
		case asked:
			logger.Info("the agent goes on with a call that was decided", "call", reply.call, "decision", reply.decision)
		case text != "":
			logger.Info("the agent's session has the turn's message, and goes on with it", "agent_session", known.Session)
		default:
			recap, whole := turn.RecapEnded(recapLimit), known.Session == "" || known.Recap || len(turn.Kept) > 0
			if whole {
				recap = turn.Recap(recapLimit)
			}
			known.Recap, known.Given = whole && recap != "", a.program.giving(spec, known.Session, turn)
			text = prompt(recap, turn)
		}
		emit, failed := turn.Emit, error(nil)
		if asked {
			emit = onToolEnd(turn.Emit, reply.call, func() { failed = ended() })
		}
		r.stream = &stream{emit: emit, logger: logger, spec: spec, turn: idsOf(turn), prompted: text != "", often: a.program.often, state: known, model: a.config.Model}
		r.decoder = a.program.decoder(r.stream)
		err := r.do(ctx, spec, a.users().Prompt(text))
		if err == nil {
			err = errors.Join(failed, ended())
		}
		if err == nil && r.state.Deferred != nil {
			known = r.state
			continue
		}
		if err == nil {
			err = r.recapped()
		}
		if !errors.Is(err, errForgotten) {
			return agent.Result{}, err
		}
		logger.Info("the agent no longer knows its session, a new one begins with a recap", "agent_session", known.Session)
		known = state{Agent: a.kind}
	}
}

// prompt is the text for the program's stdin.
func prompt(recap string, turn *agent.Turn) string {
	if recap == "" {
		return turn.Text()
	}
	return recap + "\n\n" + turn.Text()
}

// errForgotten says that the program did not know its session and did nothing.
var errForgotten = errors.New("the agent no longer knows its session")

// run is one turn of the program.
type run struct {
	*command.Command
	*stream
	kind    Kind
	program program
	resume  string
	watch   command.Watch
}

func (r *run) do(ctx context.Context, spec command.Spec, prompt string) error {
	c, err := command.Start(spec)
	if err != nil {
		return err
	}
	r.Command = c
	defer c.CloseOutput()
	var pipes sync.WaitGroup
	bad, beats, closed := make(chan error, 1), make(chan struct{}, 1), make(chan struct{})
	out := newPump()
	pipes.Go(func() { out.fill(paced.New(c.Stdout, c.Done())) })
	pipes.Go(func() {
		if err := r.read(out, beats); err != nil {
			bad <- err
			_, _ = io.Copy(io.Discard, out)
			return
		}
		close(closed)
	})
	pipes.Go(func() {
		_, _ = c.Stdin.WriteString(prompt) // a program that does not read it reports why
		_ = c.Stdin.Close()
	})
	r.watch.Bad, r.watch.Ended, r.watch.Closed, r.watch.Pipes = bad, beats, closed, &pipes
	return r.outcome(c.Supervise(ctx, r.watch))
}

func (r *run) outcome(was command.Watched) error {
	switch unfit := command.Unfit(was.Status); {
	case was.Cause != nil:
		return r.LastWords(was.Cause)
	case unfit != nil:
		return r.LastWords(unfit)
	case r.forgot():
		return errForgotten
	}
	err := r.ending(was)
	if err != nil && r.resume != "" && !r.hasOutput && !command.Passing(err) {
		r.state.Failures++
		_ = r.storeState() // err says more
	}
	return err
}

// ending is the error of a turn that the program has ended.
func (r *run) ending(was command.Watched) error {
	switch {
	case r.failure != "":
		return fmt.Errorf("%s: %s", r.kind, sentence(r.failure))
	case !r.ended && was.WentOn:
		return r.failed("it closed its output without saying how the turn ended, and kept running")
	case !r.ended && !r.complete(was.Status):
		return r.unended(was.Status)
	case !r.hasReply && r.trouble != "":
		return fmt.Errorf("%s: the agent ended without a reply: %s", r.kind, sentence(r.trouble))
	case !r.hasReply:
		return r.failed("the agent ended without a reply")
	}
	if was.Code != 0 || was.Signal != 0 {
		r.logger.Debug("the agent's turn was done, its exit status is ignored", "code", was.Code, "signal", was.Signal)
	}
	return nil
}

// failed is an error with the last lines of the program's stderr.
func (r *run) failed(what string) error { return r.WithStderr(fmt.Sprintf("%s: %s", r.kind, what)) }

// forgot reports whether the program has said that it does not know its session, before it did
// anything.
func (r *run) forgot() bool {
	if r.resume == "" || r.hasOutput || r.ended && r.failure == "" {
		return false
	}
	said := r.failure + "\n" + r.trouble + "\n" + r.Stderr()
	return slices.ContainsFunc(r.program.forgotten, func(part string) bool { return strings.Contains(said, part) })
}

// complete reports whether the output has everything but the line that reports the turn's end.
func (r *run) complete(status guardian.Status) bool {
	d, ok := r.decoder.(interface{ complete() bool })
	if !ok || !d.complete() || status.Code != 0 || status.Signal != 0 {
		return false
	}
	r.logger.Warn("the agent's last line is incomplete, the turn's usage is unknown")
	return true
}

// unended is the error of a program that did not report how the turn ended.
func (r *run) unended(status guardian.Status) error {
	what := "it exited without saying how the turn ended"
	switch meaning := r.program.exits[status.Code]; {
	case status.Signal != 0:
		what = "killed by signal: " + status.Signal.String()
	case meaning != "":
		what = fmt.Sprintf("%s (exit status %d)", meaning, status.Code)
	case status.Code != 0:
		what = fmt.Sprintf("exit status %d", status.Code)
	}
	if r.trouble != "" {
		what += ": " + sentence(r.trouble)
	} else if r.known == 0 && r.noise != "" {
		what += ": " + r.noise
	}
	err := r.failed(what)
	if status.Signal == 0 && errors.Is(r.Failure(status), agent.ErrRetryable) {
		err = agent.Retryable(err)
	}
	return err
}
