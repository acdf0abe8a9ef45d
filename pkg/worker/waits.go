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
	if w.Timer && w.Timeout <= 0 {
		return nil, fmt.Errorf("%w: the timer %q needs a timeout", agent.ErrStep, w.Key)
	}
	if err := q.parks.note(w.Key); err != nil {
		return nil, err
	}
	secret := q.parks.steps.secret(w.Key)
	known, err := q.claim.WaitFor(ctx, w.Key, secret, w.Timer)
	if err != nil || known.Decision != "" {
		return q.value(w, known, err)
	}
	decided := q.await(known.Question)
	defer q.await(0)
	if w.Begin != nil {
		if err := w.Begin(ctx, secret); err != nil {
			return nil, err
		}
	}
	left := protocol.ParkMost
	var overdue <-chan time.Time // nil: never
	if w.Timeout > 0 {
		left = max(w.Timeout-known.Age, 0)
		timer := time.NewTimer(left)
		defer timer.Stop()
		overdue = timer.C
	}
	deadline := time.Now().Add(left)
	select {
	case <-decided:
	case <-overdue:
		// A value that is in Redis by now counts.
		if _, err := q.claim.Deny(q.claim.Lease().Context(), w.Key); err != nil {
			return nil, err
		}
	case <-q.parks.when(ctx, w.Key):
		q.parked = parkedError{known.Question, time.Until(deadline), w.Key}
		return nil, q.parked
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	known, err = q.claim.WaitFor(q.claim.Lease().Context(), w.Key, secret, w.Timer)
	return q.value(w, known, err)
}

// value is how a wait ends.
func (q *questions) value(w agent.Wait, known protocol.Asked, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	value, ok := known.Value()
	if !ok && !w.Timer {
		return nil, agent.ErrNoValue
	}
	return value, q.parks.steps.count(w.Key, len(value))
}

// secret is what a program needs to end the wait with that key: the same in every run, and known to nobody who
// cannot read the turn in Redis.
func (s *steps) secret(key string) string {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00wait\x00%s", s.recorder.journal.origin, key))
	return hex.EncodeToString(sum[:16])
}

// count adds a value to the bytes of the journal. It fails if they are too many.
func (s *steps) count(key string, bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes += bytes; s.bytes > stepsMost {
		return fmt.Errorf("%w: with the value of %q it has %d bytes", agent.ErrJournalFull, key, s.bytes)
	}
	return nil
}
