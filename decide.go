package turnstile

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// justAsked is how old a question is before a decision without a number is taken as meant
// for it: the user has to see it first, and the decision is under way for a while.
const justAsked = 3 * time.Second

// Decide answers the question that the running turn's agent asks the user. number is the
// question's, from session.Question or its event; 0 means the question that is open. It
// returns the question that was decided.
//
// These errors change nothing: session.ErrNoQuestion (no question is open),
// session.ErrOtherQuestion (another one is open, which is returned), session.ErrAnswered
// (it was decided before), session.ErrJustAsked (number is 0, and the open question, which
// is returned, came less than 3 s ago behind another one: the user may have meant that), and
// session.ErrInvalid (a wrong session key or decision). An error that wraps
// session.ErrUnchanged changed nothing either.
func (c *Client) Decide(ctx context.Context, sessionKey string, number int, d session.Decision) (session.Question, error) {
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
		return q, session.ErrDecided
	case "new":
		return q, session.ErrJustAsked
	}
	return q, nil
}
