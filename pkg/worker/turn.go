package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/sessionqueue"
)

// Why a turn's context ends, besides agent.ErrLeaseLost and what senders ask for.
var (
	errTimeout = errors.New("the agent took too long")
	errDrain   = errors.New("the worker drains")
	errOver    = errors.New("the turn is over")
)

// turn is one turn's life on this worker.
type turn struct {
	sessionqueue.Turn
	served   *served
	hold     *sessionqueue.Hold
	log      *slog.Logger
	recorder *recorder
	warm     *warmAgent // that runs the turn, if agents are kept

	ctx    context.Context // the agent's
	cancel context.CancelCauseFunc
}

func newTurn(s *served) *turn {
	t := &turn{Turn: s.hold.Turn(), served: s, hold: s.hold}
	t.log = s.log.With("turn", t.ID, "fence", t.Fence)
	t.ctx, t.cancel = turnContext(s.hold.Lease())
	t.recorder = newRecorder(t)
	s.begin(t)
	return t
}

// run takes the turn to its end. release is asked at the end whether the session
// is to be given up even if more messages wait.
func (t *turn) run(release func() bool) (more bool, err error) {
	defer t.cancel(errOver)
	if end, early := t.early(); early {
		t.recorder.stop()
		return t.finish(end, release)
	}
	result, err := t.runAgent()
	if err != nil {
		t.endAgent()
	}
	t.recorder.stop()
	return t.settle(result, err, release)
}

// early finds messages that are not to be run at all.
func (t *turn) early() (sessionqueue.End, bool) {
	if t.Err != nil {
		return sessionqueue.End{Status: sessionqueue.StatusFailed, Error: t.Err.Error()}, true
	}
	limit := time.Duration(t.Message.ExpiresIn)
	if most := t.served.w.opts.MessageMaxAge; most > 0 && (limit == 0 || most < limit) {
		limit = most
	}
	if limit > 0 && t.Age > limit {
		return sessionqueue.End{
			Status: sessionqueue.StatusExpired,
			Error:  fmt.Sprintf("expired: it waited %s, at most %s was allowed", t.Age.Round(time.Millisecond), limit),
		}, true
	}
	return sessionqueue.End{}, false
}

// runAgent starts the agent and waits for it. Promotion comes before the start:
// a turn that was stopped meanwhile never runs.
func (t *turn) runAgent() (result agent.Result, err error) {
	in := agent.Turn{
		Session: t.Session, SessionID: t.SessionID, ID: t.ID, Fence: t.Fence,
		Messages:    []agent.Message{{ID: t.Message.ID, Text: t.Message.Text, Meta: t.Message.Meta, Attachments: t.Message.Attachments}},
		Redelivered: t.Redelivered > 0, Attempt: t.Attempt,
	}
	if !t.served.w.queue.Config().Immediate {
		if in.History, err = t.hold.History(t.hold.Lease().Context()); err != nil {
			return result, agent.Retryable(err)
		}
		if err := t.mayStart(); err != nil {
			return result, err
		}
		if err := t.hold.Promote(t.hold.Lease().Context()); err != nil {
			return result, err
		}
	}
	if err := t.mayStart(); err != nil {
		return result, err
	}
	timeout := time.AfterFunc(t.served.w.opts.AgentTimeout, func() {
		t.cancel(fmt.Errorf("%w: ended after %s", errTimeout, t.served.w.opts.AgentTimeout))
	})
	defer timeout.Stop()
	defer func() {
		if p := recover(); p != nil {
			t.log.Error("the agent panicked", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the agent panicked: %v", p)
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
		more, err := t.finish(sessionqueue.End{
			Status: sessionqueue.StatusDone, Reply: t.recorder.reply(result), Entries: entries,
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
	case errors.Is(cause, sessionqueue.ErrStopAsked), errors.Is(err, sessionqueue.ErrStopAsked):
		return t.stopped(release)
	case errors.Is(cause, sessionqueue.ErrInterruptAsked):
		return t.interrupted(release)
	case errors.Is(cause, errDrain):
		return t.giveBack(cause, release)
	case errors.Is(cause, errTimeout):
		return t.failed(cause, release)
	case agent.IsRetryable(err) && t.Attempt < t.served.w.opts.MaxAttempts:
		return t.retry(err, release)
	}
	return t.failed(err, release)
}

func (t *turn) finish(end sessionqueue.End, release func() bool) (more bool, err error) {
	end.Release = release()
	t.log.Debug("turn ended", "status", end.Status, "message", t.Message.ID, "error", end.Error)
	return t.hold.Finish(t.hold.Lease().Context(), end)
}

func (t *turn) failed(err error, release func() bool) (bool, error) {
	t.log.Warn("turn failed", "message", t.Message.ID, "attempt", t.Attempt, "error", err)
	return t.finish(sessionqueue.End{Status: sessionqueue.StatusFailed, Reply: t.recorder.reply(agent.Result{}), Error: err.Error()}, release)
}

func (t *turn) stopped(release func() bool) (bool, error) {
	return t.finish(sessionqueue.End{Status: sessionqueue.StatusStopped, Reply: t.recorder.reply(agent.Result{}), Error: "stopped by user"}, release)
}

func (t *turn) interrupted(release func() bool) (bool, error) {
	return t.finish(sessionqueue.End{
		Status: sessionqueue.StatusInterrupted, Reply: t.recorder.reply(agent.Result{}),
		Error: "interrupted by a newer message", Entries: t.recorder.entries(agent.Result{}, true),
	}, release)
}

func (t *turn) giveBack(cause error, release func() bool) (bool, error) {
	var d drainError
	errors.As(cause, &d)
	t.log.Info("turn given back", "message", t.Message.ID, "reason", d.reason)
	return t.orAsked(t.hold.Requeue(t.hold.Lease().Context(), string(d.reason)), release)
}

func (t *turn) retry(err error, release func() bool) (bool, error) {
	wait := backoff(t.served.w.opts.RetryBackoff, t.Attempt)
	t.log.Info("turn failed, trying again", "message", t.Message.ID, "attempt", t.Attempt, "wait", wait, "error", err)
	return t.orAsked(t.hold.Retry(t.hold.Lease().Context(), err, wait), release)
}

// orAsked finishes a turn that could not be given back because somebody has
// asked for its end.
func (t *turn) orAsked(err error, release func() bool) (bool, error) {
	switch {
	case errors.Is(err, sessionqueue.ErrStopAsked):
		return t.stopped(release)
	case errors.Is(err, sessionqueue.ErrInterruptAsked):
		return t.interrupted(release)
	}
	return false, err
}

// backoff is the wait after the n-th attempt. The jitter keeps sessions that
// failed together from coming back together.
func backoff(base time.Duration, n int) time.Duration {
	wait := min(base<<min(n-1, 20), time.Minute)
	return time.Duration(float64(wait) * (0.75 + rand.Float64()/2))
}
