package turnstile

import (
	"context"
	"crypto/rand"
	"fmt"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// Cancel ends a waiting or delayed message, and no other: it becomes a dead letter with
// session.StatusStopped. The others of a collection wait as before. If the message ended before,
// Cancel returns its outcome, so a call may be repeated.
//
// The error wraps session.ErrRunning if the message is part of a turn (use CancelTurn),
// session.ErrNotFound if it is not stored, and session.ErrUnchanged if nothing was changed: also when
// the request reached Redis after ctx's deadline, or more than 10 s late.
func (s *Session) Cancel(ctx context.Context, id string) (session.Outcome, error) {
	o, _, err := s.cancel(ctx, id, false)
	return o, err
}

// CancelTurn cancels the running turn that the message is part of, as Stop does, with the messages
// that were collected or steered into it; but one of several messages of a turn that has no worker and has done
// nothing only leaves the turn. Later messages stay in the queue. If the message waits or ended, CancelTurn is
// Cancel. Wait returns the outcome.
//
// Its errors are Cancel's. A turn of a stock asynq.Server cannot be cancelled: session.ErrRunning.
func (s *Session) CancelTurn(ctx context.Context, id string) error {
	_, _, err := s.cancel(ctx, id, true)
	return err
}

// cancel returns the message's outcome, or ended false: the end of its turn was requested.
func (s *Session) cancel(ctx context.Context, id string, running bool) (o session.Outcome, ended bool, err error) {
	if err := session.ValidateKey(s.key); err != nil {
		return o, false, err
	}
	_, until, err := s.giveUpAt(ctx)
	if err != nil {
		return o, false, fmt.Errorf("cancel message %s of %s: %w", id, s.key, err)
	}
	c := protocol.Cancel{Session: s.key, ID: id, Running: running, Call: rand.Text(), Until: until, By: s.user, Limits: s.c.cfg.Limits}
	found, err := c.Do(ctx, s.c.rdb)
	if err != nil {
		return o, false, fmt.Errorf("cancel message %s of %s: %w", id, s.key, protocol.Unchanged(err, false))
	}
	switch found.State {
	case "unknown":
		return o, false, s.notFound(id)
	case "running":
		return o, false, fmt.Errorf("cancel message %s of %s: %w", id, s.key, session.ErrRunning)
	case "late":
		return o, false, fmt.Errorf("cancel message %s of %s: %w", id, s.key, errLate)
	}
	c.Index(ctx, s.c.rdb, found)
	return found.Outcome, found.State != "ending", nil
}

func (s *Session) notFound(id string) error {
	return fmt.Errorf("%w %s of session %s", session.ErrNotFound, id, s.key)
}
