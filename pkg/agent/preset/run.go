package preset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"turnstile/internal/command"
	"turnstile/internal/guardian"
	"turnstile/pkg/agent"
)

// recapLimit is how much of the transcript a session that begins anew is told, in
// bytes.
const recapLimit = 64 << 10

// hold is how much of their output may be unread when they exit: see pump. More
// would use up what a user's pipes may hold in all, with many agents.
const hold = 256 << 10

// Run runs the program for one turn, and once more with a session that begins anew
// if it does not know the one it was to resume. It returns when the program, whatever
// it started and its guardian are gone.
func (a *Agent) Run(ctx context.Context, turn agent.Turn, emit func(agent.Event)) (agent.Result, error) {
	if ctx.Err() != nil {
		return agent.Result{}, command.Interrupted(ctx)
	}
	dir, err := a.workspace(turn.Session)
	if err != nil {
		return agent.Result{}, err
	}
	logger := a.config.Logger.With("session", turn.Session, "turn", turn.ID, "fence", turn.Fence)
	lease, _ := agent.LeaseFrom(ctx)
	known := stateOf(a.kind, turn.State)
	for {
		r := &run{
			grace: a.config.Grace, linger: a.linger, program: a.program, kind: a.kind, resume: known.Session,
			beats: make(chan struct{}, 1),
		}
		r.stream = &stream{emit: emit, logger: logger, state: known, model: a.config.Model}
		r.decoder = a.program.decoder(r.stream)
		spec := command.Spec{
			Argv: a.program.argv(a.config.Command, a.config.Model, known.Session),
			Dir:  dir, Env: a.environ(turn), Lease: lease, Logger: logger, Hold: hold,
		}
		err := r.do(ctx, spec, prompt(turn, known.Session != ""))
		if !errors.Is(err, errForgotten) {
			return agent.Result{}, err
		}
		logger.Info("the agent does not know its session any more, a new one begins with a recap", "agent_session", known.Session)
		known = state{Agent: a.kind}
	}
}

// prompt is what the program is to read.
func prompt(turn agent.Turn, resumed bool) string {
	if !resumed {
		if recap := agent.Recap(turn.History, recapLimit); recap != "" {
			return recap + "\n\n" + turn.Text()
		}
	}
	return turn.Text()
}

// errForgotten says that the program did not know its session and did nothing.
var errForgotten = errors.New("the agent does not know its session any more")

// run is the program at work.
type run struct {
	*command.Command
	*stream
	kind    Kind
	program program
	resume  string
	grace   time.Duration
	linger  time.Duration
	beats   chan struct{} // gets something with every line after the end was told

	// cause is why the program was told to stop. The first counts.
	cause error
}

func (r *run) do(ctx context.Context, spec command.Spec, prompt string) error {
	c, err := command.Start(spec)
	if err != nil {
		return err
	}
	r.Command = c
	defer c.CloseOutput()
	var reader, writer sync.WaitGroup
	bad := make(chan error, 1)
	out := newPump()
	reader.Go(func() { out.fill(c.Stdout) })
	reader.Go(func() { r.read(out, bad) })
	writer.Go(func() {
		_, _ = c.Stdin.WriteString(prompt) // one that does not read it says why
		_ = c.Stdin.Close()
	})
	status := r.supervise(ctx, bad)
	writer.Wait()
	reader.Wait()
	if r.cause == nil {
		select {
		case r.cause = <-bad:
		default:
		}
	}
	return r.outcome(status)
}

// supervise waits for the program's end and sees to it that the program stops when
// it should.
func (r *run) supervise(ctx context.Context, bad <-chan error) guardian.Status {
	done := ctx.Done()
	linger := time.NewTimer(time.Hour)
	linger.Stop()
	defer linger.Stop()
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
		case <-r.beats:
			linger.Reset(r.linger)
		case <-linger.C:
			r.Interrupt(r.grace)
		}
	}
}

func (r *run) outcome(status guardian.Status) error {
	switch unfit := command.Unfit(status); {
	case r.cause != nil:
		return r.cause
	case unfit != nil:
		return unfit
	case r.forgot():
		return errForgotten
	case r.failure != "":
		return fmt.Errorf("%s: %s", r.kind, sentence(r.failure))
	case !r.ended && !r.complete(status):
		return r.unended(status)
	case !r.worded && r.trouble != "":
		return fmt.Errorf("%s: the agent ended without a word: %s", r.kind, sentence(r.trouble))
	case !r.worded:
		return fmt.Errorf("%s: the agent ended without a word", r.kind)
	}
	if status.Code != 0 || status.Signal != 0 {
		r.logger.Debug("the agent's turn was done, its exit status is passed over", "code", status.Code, "signal", status.Signal)
	}
	return nil
}

// forgot reports whether the program has said that it does not know its session,
// before it did anything.
func (r *run) forgot() bool {
	if r.resume == "" || r.spoke || r.ended && r.failure == "" {
		return false
	}
	said := r.failure + "\n" + r.trouble + "\n" + r.Stderr()
	return slices.ContainsFunc(r.program.forgotten, func(part string) bool { return strings.Contains(said, part) })
}

// complete reports whether all was said, only that it ended was not.
func (r *run) complete(status guardian.Status) bool {
	d, ok := r.decoder.(interface{ complete() bool })
	if !ok || !d.complete() || status.Code != 0 || status.Signal != 0 {
		return false
	}
	r.logger.Warn("the agent's last line was cut off: what the turn used is not known")
	return true
}

// unended is the error of a program that did not say how the turn ended.
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
	err := fmt.Errorf("%s: %s", r.kind, clean(r.WithStderr(what).Error()))
	if status.Signal == 0 && agent.IsRetryable(r.Failure(status)) {
		err = agent.Retryable(err)
	}
	return err
}
