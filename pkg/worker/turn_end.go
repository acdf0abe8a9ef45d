package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// ending is how a turn ended, for the log and the observer.
type ending struct {
	status  session.Status
	code    string
	why     error         // nil: it succeeded
	retryIn time.Duration // for StatusRetried, and StatusParked until a time
}

// writeEnd decides how the turn ends, and writes it. An agent that returned without an error has
// finished, even if an interrupt or a stop was requested meanwhile.
func (t *turnRun) writeEnd(result agent.Result, err error) (more bool, _ error) {
	unavailable := errors.Is(err, agent.ErrUnavailable) && !t.output.Acted()
	if t.ran && !unavailable && t.ctx.Err() == nil {
		t.pauses.works(t.name, t.Started)
	}
	if err == nil {
		if t.questions.parked != nil {
			t.log.Warn("the agent has not returned agent.ErrParked: its turn is done, and does not go on")
		}
		r := t.output.Finished(result)
		t.warm.returnToPool(len(r.Entries))
		end := protocol.End{Status: session.StatusDone, Reply: r.Reply, Entries: r.Entries, Usage: r.Usage}
		if result.Cut {
			end.Code = session.CodeLength
		}
		more, err := t.finish(end)
		if err != nil {
			t.warm.drop()
		}
		return more, err
	}
	if lost := t.claim.Lease().Held(); lost != nil {
		return false, lost
	}
	cause, parked := context.Cause(t.ctx), parkedError{}
	if errors.Is(err, agent.ErrLeaseLost) {
		// The agent's guardian received no renewal in time, and killed it.
		if err := t.claim.Lease().Held(); err != nil {
			return false, err
		}
		return t.handOver(drainError{reasonLease})
	}
	if end, ok := t.requested(errors.Join(cause, err)); ok {
		return t.finish(end)
	}
	switch {
	case errors.Is(err, agent.ErrParked) && errors.As(t.questions.parked, &parked):
		return t.park(ending{status: StatusParked}, protocol.Parking{Question: parked.number, Key: parked.waits, Wait: parked.left})
	case unavailable:
		return t.giveBack(err)
	case errors.Is(cause, errDrain), errors.Is(err, protocol.ErrDraining):
		return t.handOver(cause)
	case errors.Is(cause, errPanicked):
		return t.failed(cause)
	case errors.Is(cause, errTimeout):
		return t.failed(timedOut(cause, err))
	case errors.Is(err, agent.ErrThrottled):
		return t.throttled(err)
	case errors.Is(err, agent.ErrRetryable) && t.Attempt < t.opts.MaxAttempts:
		return t.retry(err)
	}
	return t.failed(err)
}

// endUnrun ends a turn that was begun only for that: its owner before had left it. No agent runs.
func (t *turnRun) endUnrun() (more bool, err error) {
	t.steering.stop()
	stored, err := t.claim.History(t.claim.Lease().Context())
	if err != nil && t.Carries != "" {
		return false, err
	}
	t.output.FoundState(stored.State)
	if earlier := stored.Earlier; earlier != nil {
		earlier.Closed = len(earlier.Entries)
		t.output.TakeOver(earlier)
		_, kept := t.output.GoOn(earlier)
		t.unheard(kept)
	} else {
		t.output.NoOutput()
		t.unheard(nil)
	}
	t.output.Stop()
	if end, ok := t.requested(t.Ends); ok {
		return t.finish(end)
	}
	return t.failed(t.Ends)
}

// requested returns the end of a turn for which a stop, an interrupt or a rollback was requested.
// ok is false for any other turn.
func (t *turnRun) requested(cause error) (end protocol.End, ok bool) {
	r := t.output.Unfinished()
	end.Reply, end.Usage, end.Entries = r.Reply, r.Usage, r.Entries
	switch {
	case errors.Is(cause, protocol.ErrStopRequested):
		end.Status, end.Error = session.StatusStopped, "stopped by user"
	case errors.Is(cause, protocol.ErrInterruptRequested):
		end.Status, end.Error = session.StatusInterrupted, "interrupted by a newer message"
	case errors.Is(cause, protocol.ErrRollbackRequested):
		end.Status, end.Error, end.Reply, end.Entries, end.Rollback = session.StatusInterrupted, "rolled back by a newer message", "", nil, true
	default:
		return protocol.End{}, false
	}
	return end, true
}

// failed ends a turn that failed. What it has done stays in the transcript, unless the entries are what failed, or
// cannot be trusted after a panic.
func (t *turnRun) failed(err error) (more bool, _ error) {
	r := t.output.Unfinished()
	end := failure(err)
	end.Reply, end.Usage = r.Reply, r.Usage
	if !errors.Is(err, errPanicked) && !errors.Is(err, errNotStored) {
		end.Entries = r.Entries
	}
	return t.finish(end)
}

// errNotStored is the failure of a turn after Redis refused its entries.
var errNotStored = errors.New("the turn's entries could not be stored")

// failure is the end of a turn that failed. An agent's error may contain anything, so it is for
// operators.
func failure(err error) protocol.End {
	end := protocol.End{Status: session.StatusFailed, Code: session.CodeAgentFailed, Detail: err.Error()}
	end.Error = cmp.Or(agent.UserText(err), stream.AgentFailed)
	var dead protocol.GivenUpError
	switch {
	case errors.As(err, &dead):
		end.Code, end.Error, end.Detail = session.CodeWorkerDied, dead.Error(), ""
	case errors.Is(err, errTimeout):
		end.Code, end.Error = session.CodeTimeout, errTimeout.Error()
	case errors.Is(err, errPanicked), errors.Is(err, errNotStored):
		end.Code, end.Error = session.CodeInternal, "an internal error ended the turn"
	}
	return end
}

// timedOut returns the error of a turn that took too long, with the agent's own last words about
// it.
func timedOut(cause, err error) error {
	if _, words, ok := strings.Cut(err.Error(), cause.Error()); ok {
		return fmt.Errorf("%w%s", cause, words)
	}
	return cause
}

// finish writes the end of a turn that will not run again.
func (t *turnRun) finish(end protocol.End) (more bool, err error) {
	// Another worker may start an agent that this one cannot.
	end.Release = t.Ends != nil || t.pauses.of(t.name).failures > 0 || t.release()
	if end.Status != session.StatusStopped { // a stop also ends the steered messages
		end.Untaken = t.output.Untaken(append(t.steering.taken(), t.unoffered...))
	}
	if end.Status == session.StatusDone {
		end.Told = t.noted
	} else if len(end.Entries) > 0 {
		t.output.KeepState()
	}
	t.output.EndState(len(end.Entries), end.Rollback)
	t.end = ending{status: end.Status, code: end.Code}
	if why := cmp.Or(end.Detail, end.Error); why != "" {
		t.end.why = errors.New(why)
	}
	more, err = t.claim.Finish(t.claim.Lease().Context(), end)
	err = t.written(err)
	if err != nil && len(end.Entries) > 0 && t.claim.Lease().Held() == nil {
		// The lease is held and Redis is there, so these entries cannot be stored. Another run
		// would end the same. So the turn fails, without entries, and the session continues.
		t.warm.drop()
		if end.Status == session.StatusFailed || end.Status == session.StatusStopped {
			end.Entries, end.Detail = nil, fmt.Sprintf("%s; %v: %v", cmp.Or(end.Detail, end.Error), errNotStored, err)
			return t.finish(end)
		}
		return t.failed(fmt.Errorf("%w: %w", errNotStored, err))
	}
	return more, err
}

// handOver leaves the turn for another worker.
func (t *turnRun) handOver(cause error) (more bool, _ error) {
	// Promote may return a drain before the turn's context ends.
	d := drainError{t.drainReason()}
	errors.As(cause, &d)
	return t.park(ending{status: StatusRequeued, why: fmt.Errorf("requeued: %s", d.reason)}, protocol.Parking{Interrupted: string(d.reason)})
}

// retry leaves the turn for the next attempt.
func (t *turnRun) retry(err error) (more bool, _ error) {
	wait := backoff.Backoff{First: t.opts.RetryBackoff, Longest: longestBackoff, Spread: true}.After(t.Attempt)
	return t.park(ending{status: StatusRetried, why: err, retryIn: wait}, protocol.Parking{Failed: err, Wait: wait})
}

// throttled leaves the turn until the time that a provider asks for.
func (t *turnRun) throttled(err error) (more bool, _ error) {
	wait := throttleWait(agent.ThrottledFor(err), t.Throttled)
	return t.park(ending{status: StatusParked, why: err, retryIn: wait}, protocol.Parking{Throttled: true, Wait: wait})
}

// The waits for a provider.
var throttles = backoff.Backoff{First: time.Minute, Longest: 10 * time.Minute}

const longestThrottle = time.Hour

// throttleWait is how long a turn waits that has waited so often before. It is at least what the provider asks for, and
// up to a tenth more: many turns were refused at the same time.
func throttleWait(asked time.Duration, before int) time.Duration {
	wait := asked
	switch {
	case asked <= 0:
		wait = throttles.After(before + 1)
	case before > 0:
		wait = max(asked, throttles.First)
	}
	wait = min(wait, longestThrottle)
	return wait + rand.N(wait/10+1)
}

// park leaves the turn, which has not ended. What it has done is stored first. If the turn's end was requested
// meanwhile, that end is written.
func (t *turnRun) park(end ending, p protocol.Parking) (more bool, _ error) {
	t.end = end
	t.output.EndState(0, false)
	if err := t.output.StoreRest(); err != nil {
		return false, err
	}
	return t.left(t.claim.Park(t.claim.Lease().Context(), p))
}

// giveBack leaves a turn whose agent cannot be started here, as if it had not been claimed, and leaves the agent
// alone for a while.
func (t *turnRun) giveBack(err error) (more bool, _ error) {
	t.ran = false
	t.end = ending{status: StatusRequeued, why: err}
	t.pauses.fails(t.name, t.Started, err)
	t.elsewhere.want() // others may run the agent
	return t.left(t.claim.GiveBack(t.claim.Lease().Context()))
}

// left completes the moves that leave a turn, after their script returned err. The script refuses if
// the turn's end was requested meanwhile; then that end is written.
func (t *turnRun) left(err error) (more bool, _ error) {
	err = t.written(err)
	if end, ok := t.requested(err); ok {
		return t.finish(end)
	}
	return false, err
}

// written returns nil if the turn's end was written, even if the session could not be woken for
// its next messages: lostWakeUps tries that again.
func (t *turnRun) written(err error) error {
	if !t.wakeUps.add(err) {
		return err
	}
	t.log.Warn("the session could not be woken for its next messages, trying again", "error", err)
	return nil
}

// endPanicked writes the end of a turn after a panic in its own goroutine, and releases the
// session, because other parts of this turn may still run on this worker. If the write fails, the
// sentinel expires and the turn goes on a few times, as after a crash.
func (t *turnRun) endPanicked(cause error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = t.panicked("the end of a turn that had panicked", p)
		}
	}()
	t.cancel(cause)
	t.output.Close()
	t.steering.stop()
	t.warm.drop()
	if t.claim.Turn().Fence != t.Fence {
		return cause // its end is written, and the next turn does not run here
	}
	end := failure(cause)
	end.Untaken, end.Release = append(t.steering.taken(), t.unoffered...), true // the log may be what is broken
	_, err = t.claim.Finish(t.claim.Lease().Context(), end)
	if err = t.written(err); err == nil {
		t.end = ending{status: session.StatusFailed, code: end.Code, why: cause}
	}
	return err
}

// longestBackoff is the longest wait of a retry, before its spread.
const longestBackoff = time.Minute
