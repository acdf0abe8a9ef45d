package turnstile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// Value is a program's value for a turn that waits for it: see agent.Wait.
type Value struct {
	Key  string
	JSON json.RawMessage // up to 256 KiB

	// Secret is the one that the agent got with its wait. It is optional: anyone with access to Redis can give the
	// value.
	Secret string
}

// Give gives a program's value to the turn that waits for it. The first counts; the same one again is no error
// while the turn has not ended.
//
// These errors change nothing:
//
//   - session.ErrNoWait: no turn of the session waits for it. That may be, too, because the turn has ended.
//   - session.ErrGiven: another value was given before, or none was in time.
//   - session.ErrWrongSecret: the wait has another secret.
//   - session.ErrInvalid: the session's key or the value is wrong.
//   - session.ErrUnchanged alone: Redis refused the call.
func (s *Session) Give(ctx context.Context, v Value) error {
	var value bytes.Buffer
	err := session.ValidateKey(s.key)
	switch {
	case err != nil:
		return err
	case v.Key == "":
		return fmt.Errorf("%w value: it needs the key of the wait", session.ErrInvalid)
	case len(v.JSON) > protocol.ValueMost:
		return fmt.Errorf("%w value: it has %d bytes, at most %d are allowed", session.ErrInvalid, len(v.JSON), protocol.ValueMost)
	case !utf8.Valid(v.JSON) || json.Compact(&value, v.JSON) != nil:
		return fmt.Errorf("%w value: it is no JSON", session.ErrInvalid)
	case len(s.user) > mostUser:
		return fmt.Errorf("%w user: it has %d bytes, at most %d are allowed", session.ErrInvalid, len(s.user), mostUser)
	}
	state, _, err := protocol.Decide{
		Session: s.key, Decision: protocol.Given, Key: v.Key, Value: value.String(), Secret: v.Secret, Call: rand.Text(), User: s.user,
	}.Do(ctx, s.c.rdb)
	if err != nil {
		return fmt.Errorf("give a value to %s: %w", s.key, protocol.Unchanged(err, false))
	}
	switch state {
	case "parked":
		s.wake(ctx)
	case "answered":
		return session.ErrGiven
	case "wrong":
		return session.ErrWrongSecret
	case "none":
		return session.ErrNoWait
	}
	return nil
}
