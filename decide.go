package turnstile

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"turnstile/internal/chat/slash"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
	"turnstile/pkg/session"
)

// justAsked is how old a question must be before a decision without a number applies to it: a
// younger one may not have reached the user yet.
const justAsked = 3 * time.Second

// mostUser bounds the name of As in bytes. It is stored and sent with the decision.
const mostUser = 512

// Decide decides the open question of the running turn's agent, and returns the question. question is
// the ID of one (session.Question.ID), so no other is decided, or its number, or "" for the open one.
//
// These errors change nothing:
//
//   - session.ErrNoQuestion: no question is open.
//   - session.ErrOtherQuestion: another question is open, which Decide returns. A question with the
//     same number in another turn counts as another.
//   - session.ErrDecided: the question was decided before.
//   - session.ErrJustAsked: question is "", and the open question, which Decide returns, replaced
//     another one less than 3 s ago. The user may have meant the earlier one.
//   - session.ErrInvalid: the session's key, the question or the decision is wrong.
//   - session.ErrUnchanged alone: Redis refused the call.
func (s *Session) Decide(ctx context.Context, question string, d session.Decision) (session.Question, error) {
	turn, number, ofTurn := strings.Cut(question, ".")
	if !ofTurn {
		turn, number = "", question
	}
	n, err := strconv.Atoi(number)
	if question != "" && (err != nil || n < 1 || ofTurn && turn == "") {
		return session.Question{}, fmt.Errorf("%w question id %.100q: it is TURN.NUMBER, or a number", session.ErrInvalid, question)
	}
	return s.decide(ctx, protocol.Decide{Session: s.key, Turn: turn, Question: n, Decision: d})
}

// wake lets a worker claim the session, of which a script has changed a parked turn. The change counts whatever
// becomes of this: the due index or the sweep has the session.
func (s *Session) wake(ctx context.Context) {
	if now, err := protocol.Now(ctx, s.c.rdb, s.key); err == nil {
		_ = index.ListAndWake(ctx, s.c.rdb, s.key, now, 0)
	}
}

func (s *Session) decide(ctx context.Context, call protocol.Decide) (session.Question, error) {
	d := call.Decision
	if err := session.ValidateKey(s.key); err != nil {
		return session.Question{}, err
	}
	if d != session.Allow && d != session.Always && d != session.Deny {
		return session.Question{}, fmt.Errorf("%w decision %q: it is %s, %s or %s", session.ErrInvalid, d, session.Allow, session.Always, session.Deny)
	}
	if n := len(s.user); n > mostUser {
		return session.Question{}, fmt.Errorf("%w user: it has %d bytes, at most %d are allowed", session.ErrInvalid, n, mostUser)
	}
	q, checked, err := slash.Check(ctx, call.Question)
	switch {
	case err != nil:
		return q, fmt.Errorf("%w: %w", session.ErrUnchanged, err)
	case checked:
		call.Turn, call.Only = cmp.Or(call.Turn, q.Turn), cmp.Or(q.Number, -1)
	}
	call.Call, call.Fresh, call.User = rand.Text(), justAsked, s.user
	state, q, err := call.Do(ctx, s.c.rdb)
	if err != nil {
		return session.Question{}, fmt.Errorf("decide the question of %s: %w", s.key, protocol.Unchanged(err, false))
	}
	switch state {
	case "parked":
		s.wake(ctx)
	case "none":
		return q, session.ErrNoQuestion
	case "other":
		return q, session.ErrOtherQuestion
	case "answered":
		return q, session.ErrDecided
	case "new":
		return q, session.ErrJustAsked
	}
	return q, nil
}

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
