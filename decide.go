package turnstile

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/slash"
	"turnstile/pkg/session"
)

// justAsked is how old a question must be for a decision without a number to mean it. The user
// needs time to see the question, and the decision takes time to arrive.
const justAsked = 3 * time.Second

// mostUser bounds the name of By, which is kept and sent with the decision, in bytes.
const mostUser = 512

// By names the user who decides by calls with the context: Decide, DecideQuestion, and Submit of /approve
// and /deny. The decision's event has the name as Event.By. It is a text of at most 512 bytes, else the
// call's error wraps session.ErrInvalid. A gateway writes its token's name, a slash and the user.
func By(ctx context.Context, user string) context.Context { return slash.WithUser(ctx, user) }

// Decide decides the open question of the running turn's agent. number is the question's, from
// session.Question or its event; 0 means the open one. Decide returns the question that it decided.
//
// These errors change nothing:
//
//   - session.ErrNoQuestion: no question is open.
//   - session.ErrOtherQuestion: another question is open, which Decide returns.
//   - session.ErrDecided: the question was decided before.
//   - session.ErrJustAsked: number is 0, and the open question, which Decide returns, replaced
//     another one less than 3 s ago. The user may have meant that one.
//   - session.ErrInvalid: the session key or the decision is wrong.
//   - session.ErrUnchanged: Redis refused the call.
func (c *Client) Decide(ctx context.Context, sessionKey string, number int, d session.Decision) (session.Question, error) {
	return c.decide(ctx, protocol.Decide{Session: sessionKey, Question: number, Decision: d})
}

// DecideQuestion is Decide for the question with that id (session.Question.ID), and for no other: a
// question with the same number in another turn, as after an erase, is session.ErrOtherQuestion. The
// error also wraps session.ErrInvalid if the id is not TURN.NUMBER.
func (c *Client) DecideQuestion(ctx context.Context, sessionKey, id string, d session.Decision) (session.Question, error) {
	turn, number, _ := strings.Cut(id, ".")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || turn == "" {
		return session.Question{}, fmt.Errorf("%w question id %q: it is TURN.NUMBER", session.ErrInvalid, id)
	}
	return c.decide(ctx, protocol.Decide{Session: sessionKey, Turn: turn, Question: n, Decision: d})
}

func (c *Client) decide(ctx context.Context, call protocol.Decide) (session.Question, error) {
	sessionKey, d := call.Session, call.Decision
	if err := session.ValidateKey(sessionKey); err != nil {
		return session.Question{}, err
	}
	if d != session.Allow && d != session.Always && d != session.Deny {
		return session.Question{}, fmt.Errorf("%w decision %q: it is %s, %s or %s", session.ErrInvalid, d, session.Allow, session.Always, session.Deny)
	}
	if n := len(slash.User(ctx)); n > mostUser {
		return session.Question{}, fmt.Errorf("%w user: it has %d bytes, at most %d are allowed", session.ErrInvalid, n, mostUser)
	}
	turn, err := slash.Check(ctx)
	if err != nil {
		return session.Question{}, fmt.Errorf("%w: %w", session.ErrUnchanged, err)
	}
	if call.Turn == "" {
		call.Turn = turn
	}
	call.Call, call.Fresh, call.User = rand.Text(), justAsked, slash.User(ctx)
	state, q, err := call.Do(ctx, c.rdb)
	if err != nil {
		return session.Question{}, fmt.Errorf("decide the question of %s: %w", sessionKey, protocol.Unchanged(err, false))
	}
	switch state {
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
