package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
)

// Why a turn's context ends, besides agent.ErrLeaseLost and what senders ask for.
var (
	errTimeout = errors.New("the agent took too long")
	errDrain   = errors.New("the worker drains")
	errOver    = errors.New("the turn is over")
)

// turn is one turn's life on this worker.
type turn struct {
	protocol.Turn
	served   *served
	hold     *protocol.Claim
	log      *slog.Logger
	recorder *recorder
	steering *steering  // nil where the agent takes no steers
	told     int        // how many dropped messages the agent was told of
	warm     *warmAgent // that runs the turn, if agents are kept
	kept     bool       // it was put by: another turn may have it
	asking   *asking

	// For the log and the observer, of turns whose end was written.
	ran     bool // the agent was started
	status  session.Status
	failure error         // why it did not end well
	retryIn time.Duration // of one that is retried

	ctx    context.Context // the agent's
	cancel context.CancelCauseFunc
}

func newTurn(s *served) *turn {
	t := &turn{Turn: s.hold.Turn(), served: s, hold: s.hold}
	t.log = s.log.With("turn", t.ID, "fence", t.Fence)
	t.ctx, t.cancel = turnContext(s.hold.Lease())
	t.recorder = newRecorder(t)
	t.asking = newAsking(t)
	if s.w.steerable {
		t.steering = newSteering(t)
	}
	s.begin(t)
	return t
}

// run takes the turn to its end. release is asked at the end whether the session
// is to be given up even if more messages wait.
func (t *turn) run(release func() bool) (more bool, err error) {
	defer t.cancel(errOver)
	defer t.steering.stop()
	t.speakUp()
	end, early, err := t.early()
	if early || err != nil {
		t.steering.stop() // a steer after the end would be into the next turn
		t.recorder.stop()
		if err != nil {
			return false, err
		}
		return t.finish(end, release)
	}
	result, err := t.runAgent()
	t.steering.stop()
	t.asking.stop()
	if err != nil {
		t.endAgent()
	}
	t.recorder.stop()
	return t.settle(result, err, release)
}

// speakUp renews at once where a message comes back: it may be what killed its last
// worker. A death counts only if the owner was heard of, so that a lost reply is not
// taken for one; without this a message that kills at once would never be counted.
func (t *turn) speakUp() {
	if slices.ContainsFunc(t.Messages(), func(m protocol.Taken) bool { return m.Redelivered > 0 }) {
		// On an error the next renewal is in time for all others.
		t.served.w.queue.Renew(t.hold.Lease().Context(), []*protocol.Claim{t.hold})
	}
}

// early finds messages that are not to be run at all. Where the turn has others
// they are put aside, and it goes on without them.
func (t *turn) early() (end protocol.End, all bool, err error) {
	messages := t.Messages()
	left := len(messages)
	for _, m := range messages {
		verdict, bad := t.verdict(m)
		switch {
		case !bad:
		case left == 1:
			return verdict, true, nil
		default:
			if err := t.hold.Dismiss(t.hold.Lease().Context(), m, verdict.Status, verdict.Error); err != nil {
				return verdict, false, err
			}
			left--
		}
	}
	if left < len(messages) {
		// Not the whole turn: signals are reading what names it.
		now := t.hold.Turn()
		t.Taken, t.Collected = now.Taken, now.Collected
	}
	return protocol.End{}, false, nil
}

func (t *turn) verdict(m protocol.Taken) (end protocol.End, bad bool) {
	if m.Err != nil {
		return protocol.End{Status: session.StatusFailed, Error: m.Err.Error()}, true
	}
	limit := time.Duration(m.Message.ExpiresIn)
	if most := t.served.w.opts.MessageMaxAge; most > 0 && (limit == 0 || most < limit) {
		limit = most
	}
	if limit > 0 && m.Age > limit {
		return protocol.End{
			Status: session.StatusExpired,
			Error:  fmt.Sprintf("expired: it waited %s, at most %s was allowed", m.Age.Round(time.Millisecond), limit),
		}, true
	}
	return protocol.End{}, false
}

// runAgent starts the agent and waits for it. Promotion comes before the start:
// a turn that was stopped meanwhile never runs.
func (t *turn) runAgent() (result agent.Result, err error) {
	in := agent.Turn{
		Session: t.Session, SessionID: t.SessionID, ID: t.ID, Fence: t.Fence,
		Messages:    make([]agent.Message, 0, 1),
		Redelivered: t.Redelivered > 0, Attempt: t.Attempt, Steers: t.steering.channel(), Ask: t.asking.ask,
	}
	for _, m := range t.Messages() {
		in.Messages = append(in.Messages, agentMessage(m.Message))
	}
	immediate := t.served.w.queue.Config().Immediate
	if !immediate || t.hasPast() {
		if err := t.recall(&in); err != nil {
			return result, agent.Retryable(err)
		}
	}
	if !immediate {
		if err := t.mayStart(); err != nil {
			return result, err
		}
		if err := t.hold.Promote(t.hold.Lease().Context()); err != nil {
			return result, err
		}
		if t.hold.SteerWaits() {
			t.steering.wake()
		}
	}
	if err := t.mayStart(); err != nil {
		return result, err
	}
	t.started()
	timeout := time.AfterFunc(t.served.w.opts.AgentTimeout, func() {
		t.cancel(fmt.Errorf("%w: ended after %s", errTimeout, t.served.w.opts.AgentTimeout))
	})
	defer timeout.Stop()
	defer func() {
		if p := recover(); p != nil {
			err = t.panicked("the agent", p)
		}
	}()
	ctx, run := agent.WithLease(t.ctx, t.hold.Lease()), t.served.w.agent.Run
	if t.served.w.warm != nil {
		if err := t.warmUp(ctx, in); err != nil {
			return result, err
		}
		run = t.warm.Run
	}
	return run(ctx, in, t.recorder.record)
}

func agentMessage(m session.Message) agent.Message {
	return agent.Message{ID: m.ID, Text: m.Text, Meta: m.Meta, Attachments: m.Attachments}
}

// wasCut reports whether an earlier run of the turn, or of the one before it, was
// cut off.
func (t *turn) wasCut() bool { return t.Resume != "" || t.Redelivered > 0 }

// hasPast reports whether there is more to tell the agent than the message, be it
// that it asks for no history.
func (t *turn) hasPast() bool { return t.wasCut() || len(t.Dropped) > 0 }

// recall gives the agent what came before: the transcript, what an earlier run of
// this message had done when it was cut off, and a note about it.
func (t *turn) recall(in *agent.Turn) error {
	past, err := t.hold.History(t.hold.Lease().Context())
	if err != nil {
		return err
	}
	if past.Older > 0 {
		t.log.Info("the transcript is long: its oldest entries are not told", "told", len(past.Entries), "older", past.Older)
	}
	in.History, in.State = past.Entries, past.State
	t.recorder.found(past.State)
	if past.Partial != nil {
		in.History = append(in.History, past.Partial.Entries...)
		t.recorder.goOn(past.Partial.Entries)
	}
	in.Note = resume.Note(resume.Facts{
		Record:    resume.Record{Pending: t.Resume != "", Reason: t.Resume, Age: t.ResumeAge, MarkedAt: t.StartedAt.Add(-t.ResumeAge)},
		Freshness: t.served.w.opts.ResumeFreshness,
		History:   in.History,
		Dropped:   past.Dropped,
		Omitted:   past.Omitted,
	})
	t.told = len(t.Dropped)
	if t.wasCut() {
		t.log.Info("turn goes on from where it was cut off", "message", t.Message.ID, "reason", t.Resume, "entries", len(t.recorder.before))
	}
	return nil
}

// mayStart answers why no agent is to be started any more, or nil. The lease is
// asked itself: the context learns of its end a little later, and a worker that
// was stopped may come here long after.
func (t *turn) mayStart() error {
	if err := t.hold.Lease().Held(); err != nil {
		return err
	}
	return context.Cause(t.ctx)
}

// settle decides how the turn ends and tells Redis so. An agent that returned
// without an error has finished, whatever was asked of it meanwhile.
func (t *turn) settle(result agent.Result, err error, release func() bool) (more bool, _ error) {
	if err == nil {
		entries := t.recorder.entries(result, false)
		t.keepAgent(len(entries))
		more, err := t.finish(protocol.End{
			Status: session.StatusDone, Reply: t.recorder.reply(result), Entries: entries,
		}, release)
		if err != nil {
			t.dropAgent()
		}
		return more, err
	}
	if lost := t.hold.Lease().Held(); lost != nil {
		return false, lost
	}
	cause := context.Cause(t.ctx)
	switch {
	case errors.Is(err, agent.ErrLeaseLost):
		// The agent's guardian did not hear of a renewal in time, and killed it.
		if err := t.hold.Lease().Held(); err != nil {
			return false, err
		}
		return t.giveBack(drainError{reasonLease}, release)
	case errors.Is(cause, protocol.ErrStopRequested), errors.Is(err, protocol.ErrStopRequested):
		return t.stopped(release)
	case errors.Is(cause, protocol.ErrInterruptRequested), errors.Is(err, protocol.ErrInterruptRequested):
		return t.interrupted(release)
	case errors.Is(cause, protocol.ErrRollbackRequested), errors.Is(err, protocol.ErrRollbackRequested):
		return t.rolledBack(release)
	case errors.Is(cause, errDrain), errors.Is(err, protocol.ErrDraining):
		return t.giveBack(cause, release)
	case errors.Is(cause, errPanicked):
		return t.failed(cause, release)
	case errors.Is(cause, errTimeout):
		return t.failed(timedOut(cause, err), release)
	case agent.IsRetryable(err) && t.Attempt < t.served.w.opts.MaxAttempts:
		return t.retry(err, release)
	}
	return t.failed(err, release)
}

func (t *turn) finish(end protocol.End, release func() bool) (more bool, err error) {
	end.Release = release()
	if end.Status != session.StatusStopped { // that ends what was offered as well
		end.Untaken = t.steering.untaken()
	}
	if end.Status == session.StatusDone {
		end.Told = t.told
	}
	end.Usage = t.recorder.used()
	t.keepState(end)
	t.status, t.failure = end.Status, nil
	if end.Error != "" {
		t.failure = errors.New(end.Error)
	}
	more, err = t.hold.Finish(t.hold.Lease().Context(), end)
	err = t.stored(err)
	if err != nil && len(end.Entries) > 0 && t.hold.Lease().Held() == nil {
		// Neither lost nor away: what is to be stored cannot be. Run again, it would
		// come to the same; without its entries the session goes on.
		t.dropAgent()
		return t.failed(fmt.Errorf("what the turn did could not be stored: %w", err), release)
	}
	return more, err
}

// timedOut is why a turn ended that took too long, with what the agent has to say
// about it: its last words.
func timedOut(cause, err error) error {
	if _, words, ok := strings.Cut(err.Error(), cause.Error()); ok {
		return fmt.Errorf("%w%s", cause, words)
	}
	return cause
}

// keepState stores what the agent keeps for the session's next turns, for the
// transcript as it is before this end and as it will be behind it: the two are not
// written in one script. Without it the next turn's agent has the history alone.
func (t *turn) keepState(end protocol.End) {
	keep, kept := t.recorder.state()
	switch {
	case end.Rollback && (keep != nil || kept != nil): // what the agent knows of the turn cannot be taken back
		keep = nil
	case keep == nil: // an agent that keeps nothing, or has not come to it
		return
	}
	if err := t.hold.Keep(t.hold.Lease().Context(), keep, len(end.Entries)); err != nil {
		t.log.Warn("what the agent keeps was not stored", "error", err)
	}
}

func (t *turn) failed(err error, release func() bool) (bool, error) {
	return t.finish(protocol.End{Status: session.StatusFailed, Reply: t.recorder.reply(agent.Result{}), Error: err.Error()}, release)
}

func (t *turn) stopped(release func() bool) (bool, error) {
	return t.finish(protocol.End{Status: session.StatusStopped, Reply: t.recorder.reply(agent.Result{}), Error: "stopped by user"}, release)
}

func (t *turn) interrupted(release func() bool) (bool, error) {
	return t.finish(protocol.End{
		Status: session.StatusInterrupted, Reply: t.recorder.reply(agent.Result{}),
		Error: "interrupted by a newer message", Entries: t.recorder.entries(agent.Result{}, true),
	}, release)
}

func (t *turn) rolledBack(release func() bool) (bool, error) {
	return t.finish(protocol.End{
		Status: session.StatusInterrupted, Error: "rolled back by a newer message", Rollback: true,
	}, release)
}

// giveBack is the end of a turn that was cut off: what it did goes with it.
func (t *turn) giveBack(cause error, release func() bool) (bool, error) {
	// Promote may have heard of the drain before the turn's context did.
	d := drainError{t.served.w.DrainProgress().Reason}
	errors.As(cause, &d)
	t.status, t.failure = StatusRequeued, fmt.Errorf("given back: %s", d.reason)
	t.keepState(protocol.End{})
	err := t.stored(t.hold.Requeue(t.hold.Lease().Context(), string(d.reason), t.recorder.soFar()...))
	if err == nil {
		t.served.outcome = outcomeGivenBack
	}
	return t.orAsked(err, release)
}

func (t *turn) retry(err error, release func() bool) (bool, error) {
	wait := backoff(t.served.w.opts.RetryBackoff, t.Attempt)
	t.status, t.failure, t.retryIn = StatusRetried, err, wait
	t.keepState(protocol.End{})
	return t.orAsked(t.stored(t.hold.Retry(t.hold.Lease().Context(), err, wait, t.recorder.inherited()...)), release)
}

// orAsked finishes a turn that could not be given back because somebody has
// asked for its end.
func (t *turn) orAsked(err error, release func() bool) (bool, error) {
	switch {
	case errors.Is(err, protocol.ErrStopRequested):
		return t.stopped(release)
	case errors.Is(err, protocol.ErrInterruptRequested):
		return t.interrupted(release)
	case errors.Is(err, protocol.ErrRollbackRequested):
		return t.rolledBack(release)
	}
	return false, err
}

// longestBackoff is how long a retry waits at most, but for the jitter.
const longestBackoff = time.Minute

// backoff is the wait after the n-th attempt. The jitter keeps sessions that
// failed together from coming back together.
func backoff(base time.Duration, n int) time.Duration {
	wait := min(base, longestBackoff) << min(max(n-1, 0), 20)
	wait = min(wait, longestBackoff)
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}
