package turnstile

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// justAsked is how long a bare answer may still be meant for the question before: the
// user has to see the new one, and the answer is under way for a while.
const justAsked = 3 * time.Second

// Answer answers what the running turn's agent asks. number is the question's, as
// its event tells; 0 means the one that the user sees. ErrNothingAsked, ErrOtherAsked
// (with the question that is asked), ErrAnswered, and for 0 ErrJustAsked (with the
// question, which came so lately that the user may have answered the one before it):
// nothing was changed; nor was it where d is no decision, which wraps
// session.ErrInvalid.
func (c *Client) Answer(ctx context.Context, sessionKey string, number int, d session.Decision) (session.Question, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return session.Question{}, err
	}
	if d != session.Allow && d != session.Always && d != session.Deny {
		return session.Question{}, fmt.Errorf("%w decision %q: it is %s, %s or %s", session.ErrInvalid, d, session.Allow, session.Always, session.Deny)
	}
	state, q, err := protocol.Decide{Session: sessionKey, Question: number, Decision: d, Call: rand.Text(), Fresh: justAsked}.Do(ctx, c.rdb)
	if err != nil {
		return session.Question{}, fmt.Errorf("answer %s: %w", sessionKey, protocol.Unchanged(err, false))
	}
	switch state {
	case "none":
		return q, session.ErrNoQuestion
	case "other":
		return q, session.ErrOtherQuestion
	case "answered":
		return q, session.ErrAnswered
	case "new":
		return q, session.ErrJustAsked
	}
	return q, nil
}
