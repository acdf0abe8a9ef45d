package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	if err := q.parks.note(w.Key); err != nil {
		return nil, err
	}
	secret, err := q.parks.steps.secret(w.Key)
	if err != nil {
		return nil, err
	}
	known, err := q.claim.WaitFor(ctx, w.Key, secret, w.Timer, w.Timeout)
	if err != nil || known.Decision != "" {
		return q.value(w, known, err)
	}
	asked := time.Now()
	decided := q.await(known.Question)
	defer q.await(0)
	if w.Begin != nil {
		if err := w.Begin(context.WithValue(ctx, beginning{}, true), secret); err != nil {
			return nil, err
		}
	}
	left, timed := protocol.ParkMost, w.Timeout != 0 || w.Timer
	if timed {
		left = max(w.Timeout-known.Age-time.Since(asked), 0)
	}
	_, over, err := q.until(ctx, w.Key, parkedError{known.Question, left, w.Key}, timed, decided, w.Sent)
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
		q.parks.steps.count(w.Key, len(value))
		return value, nil
	case known.Decision.Allowed():
		return nil, fmt.Errorf("%w: the key %q is a question's", agent.ErrStep, w.Key)
	case w.Timer:
		return nil, nil
	}
	return nil, agent.ErrNoValue
}

// secret is what a program needs to end the wait with that key: the same in every run, and known to nobody who
// cannot read the turn in Redis.
func (s *steps) secret(key string) (string, error) {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	origin := s.recorder.journal.origin
	if origin == "" {
		return "", fmt.Errorf("%w: the turn has no origin", agent.ErrStep)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00wait\x00%s", origin, key))
	return hex.EncodeToString(sum[:16]), nil
}

// count adds a value to the bytes of the journal, once in a run.
func (s *steps) count(key string, bytes int) {
	s.lock()
	defer s.mu.Unlock()
	if !s.counted[key] {
		s.counted[key] = true
		s.bytes += bytes
	}
}
