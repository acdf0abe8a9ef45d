package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
)

// beginning marks the context of a wait's Begin.
type beginning struct{}

// wait is Wait of agent.Host.
func (q *questions) wait(ctx context.Context, w agent.Wait) (value json.RawMessage, err error) {
	err = q.alone(ctx, "a wait", func(ctx context.Context) (err error) {
		value, err = q.waitFor(ctx, w)
		return err
	})
	return value, err
}

// waitFor stores a wait, lets it begin, and waits for its end.
func (q *questions) waitFor(ctx context.Context, w agent.Wait) (json.RawMessage, error) {
	secret, err := q.output.BeginWait(w.Key)
	if err != nil {
		return nil, err
	}
	known, err := q.claim.WaitFor(ctx, w.Key, secret, w.Timer, w.Timeout)
	if err != nil || known.Decision != "" {
		return q.value(w, known, err)
	}
	asked := time.Now()
	if w.Begin != nil {
		if err := w.Begin(context.WithValue(ctx, beginning{}, true), secret); err != nil {
			return nil, err
		}
	}
	left, timed := protocol.ParkMost, w.Timeout != 0 || w.Timer
	if timed {
		left = max(w.Timeout-known.Age-time.Since(asked), 0)
	}
	_, over, err := q.until(ctx, w.Key, parkedError{known.Question, left, w.Key}, timed, w.Sent)
	if over { // a value that is in Redis by now counts
		_, err = q.claim.Deny(q.claim.Lease().Context(), w.Key)
	}
	if err != nil {
		return nil, err
	}
	known, err = q.claim.WaitFor(q.claim.Lease().Context(), w.Key, secret, w.Timer, w.Timeout)
	return q.value(w, known, err)
}

// value is how a wait ends.
func (q *questions) value(w agent.Wait, known protocol.Asked, err error) (json.RawMessage, error) {
	value, given := known.Value()
	switch {
	case err != nil:
		return nil, err
	case given:
		q.output.CountValue(w.Key, len(value))
		return value, nil
	case known.Decision.Allowed():
		return nil, fmt.Errorf("%w: the key %q is a question's", agent.ErrStep, w.Key)
	case w.Timer:
		return nil, nil
	}
	return nil, agent.ErrNoValue
}

// parks says when a turn that waits for a decision gives up its worker.
type parks struct {
	after  time.Duration // 0: never
	cap    *parkedCap
	drains <-chan struct{} // closed when the worker drains: then at once
	leave  func()          // interrupts a turn that waits and cannot be parked, for the drain
	seat   *seat           // for questions without a Key
}

// parkRetry is how soon a turn is parked that could not be, because a step was running.
const parkRetry = time.Second

// parkedError is the error of a question, or of a wait, that goes on without a worker.
type parkedError struct {
	number int
	left   time.Duration // until it is over
	waits  string        // the key of the wait; "": a question
}

func (parkedError) Error() string { return agent.ErrParked.Error() }

func (parkedError) Unwrap() error { return agent.ErrParked }
