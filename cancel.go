package turnstile

import (
	"context"
	"crypto/rand"
	"fmt"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// Cancel ends one message, and no other that waits. It returns the message's outcome, or ended
// false: the end of its turn was requested, and Wait returns the outcome. Without running, Cancel
// changes nothing if the message is part of a turn, and the error wraps session.ErrRunning.
//
// What becomes of the message:
//
//   - It waits in line, collected or not, or is delayed: it becomes a dead letter with
//     session.StatusStopped. The others of a collection wait as before.
//   - It is part of a turn, with running: that turn is cancelled, as by Stop, and so are the messages
//     that were collected or steered into the same turn. What waits behind it stays in line. A turn of
//     a stock asynq.Server is not cancelled: the error wraps session.ErrRunning.
//   - It has ended: Cancel returns how. So a call may be repeated.
//
// The error wraps ErrUnknownMessage if the message is not stored, session.ErrInvalid if the session
// key is wrong, and session.ErrUnchanged if nothing was changed: also when the request reached Redis
// after ctx's deadline, or more than 10 s late.
func (c *Client) Cancel(ctx context.Context, sessionKey, id string, running bool) (o session.Outcome, ended bool, err error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return o, false, err
	}
	_, until, err := c.giveUpAt(ctx, sessionKey)
	if err != nil {
		return o, false, fmt.Errorf("cancel message %s of %s: %w", id, sessionKey, err)
	}
	found, err := protocol.Cancel{
		Session: sessionKey, ID: id, Running: running, Call: rand.Text(), Until: until, Limits: c.cfg.Limits,
	}.Do(ctx, c.rdb)
	if err != nil {
		return o, false, fmt.Errorf("cancel message %s of %s: %w", id, sessionKey, protocol.Unchanged(err, false))
	}
	switch found.State {
	case "unknown":
		return o, false, fmt.Errorf("%w %s of session %s", ErrUnknownMessage, id, sessionKey)
	case "running":
		return o, false, fmt.Errorf("cancel message %s of %s: %w", id, sessionKey, session.ErrRunning)
	case "late":
		return o, false, fmt.Errorf("cancel message %s of %s: %w", id, sessionKey, errLate)
	case "ending":
		return o, false, nil
	}
	if found.State == "taken" {
		_ = protocol.NeedAttention(ctx, c.rdb, found.Now, sessionKey)
	}
	if found.Wake {
		// The message was cancelled whatever becomes of this: the due index or the sweep has the session.
		_ = protocol.ListAndWake(ctx, c.rdb, sessionKey, found.Now, 0)
	}
	return found.Outcome, true, nil
}
