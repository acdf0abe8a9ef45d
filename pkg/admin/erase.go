package admin

import (
	"context"
	"errors"
	"fmt"

	"turnstile/internal/protocol/maintenance"
	"turnstile/pkg/session"
)

// EraseOption changes one Erase.
type EraseOption func(*eraseOptions)

type eraseOptions struct{ undelivered bool }

// EraseUndelivered deletes undelivered outcomes, too.
func EraseUndelivered() EraseOption { return func(o *eraseOptions) { o.undelivered = true } }

// Erase deletes all of the session in Redis: messages, results, dead letters, transcripts, events,
// title and settings. To find earlier transcripts it scans all keys of the database. An unknown
// session is not an error.
//
// The error wraps session.ErrBusy if a turn is running. Then nothing is deleted. Only if the turn
// started during the call, and the session has more than 500 messages, some of these may be
// deleted.
//
// If an outcome is undelivered, the error wraps session.ErrUndelivered and nothing is deleted,
// unless EraseUndelivered is given. After any other error, call Erase again.
//
// A message that arrives during the call is deleted, too, or starts a new session.
func (s *Session) Erase(ctx context.Context, opts ...EraseOption) error {
	var o eraseOptions
	for _, set := range opts {
		set(&o)
	}
	if err := session.ValidateKey(s.key); err != nil {
		return err
	}
	return eraseError(s.key, maintenance.Erase{Session: s.key, Undelivered: o.undelivered}.Do(ctx, s.admin.rdb))
}

func eraseError(sessionKey string, err error) error {
	switch {
	case errors.Is(err, session.ErrBusy):
		return fmt.Errorf("%w in session %s", session.ErrBusy, sessionKey)
	case err != nil:
		return fmt.Errorf("erase %s: %w", sessionKey, err)
	}
	return nil
}
