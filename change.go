package turnstile

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/titles"
	"turnstile/pkg/session"
)

// index lists a session before its record is written. Without that, Forget would not find the
// record of a session without messages.
func (c *Client) index(ctx context.Context, sessionKey string) error {
	now, err := c.sender.Now(ctx)
	if err != nil {
		return protocol.Unchanged(err, false)
	}
	_, err = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		protocol.Know(ctx, p, now, sessionKey)
		return nil
	})
	return protocol.Unchanged(err, false)
}

// Rotate starts a new transcript: it gives the session a new session id, which the next turn uses.
// A running turn still ends in the old transcript. Waiting messages stay in line.
//
// old is the session id to replace. If the session has another one by now, Rotate changes nothing,
// so a call may be repeated. An empty old replaces the current one. Rotate returns the session id
// that is current afterwards.
//
// The error wraps session.ErrInvalid if the session key is wrong, and session.ErrUnchanged if
// nothing was changed: also when the request reached Redis after ctx's deadline, or more than 10 s
// late.
func (c *Client) Rotate(ctx context.Context, sessionKey, old string) (sessionID string, err error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return "", err
	}
	if sessionID, err = c.rotate(ctx, sessionKey, old); err != nil {
		return "", fmt.Errorf("rotate %s: %w", sessionKey, protocol.Unchanged(err, false))
	}
	return sessionID, nil
}

func (c *Client) rotate(ctx context.Context, sessionKey, old string) (string, error) {
	_, until, err := c.giveUpAt(ctx, sessionKey)
	if err != nil {
		return "", err
	}
	if old == "" { // a session that has an id has a record, and is listed
		if old, err = c.rdb.HGet(ctx, rediskey.For(sessionKey).Record(), "session_id").Result(); err != nil && !errors.Is(err, redis.Nil) {
			return "", err
		}
		if err := c.index(ctx, sessionKey); err != nil {
			return "", err
		}
	}
	sessionID, late, err := protocol.Rotate{Session: sessionKey, Old: old, Until: until}.Do(ctx, c.rdb)
	if err == nil && late {
		err = errLate
	}
	return sessionID, err
}

// SetTitle sets the title of the current transcript. No agent replaces it. An empty title removes
// it. The error wraps session.ErrInvalid if the session key is wrong or the title is not one line
// of at most 200 characters, and session.ErrUnchanged if nothing was changed.
func (c *Client) SetTitle(ctx context.Context, sessionKey, title string) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	if err := titles.Validate(title); err != nil {
		return err
	}
	if err := c.index(ctx, sessionKey); err != nil {
		return fmt.Errorf("title of %s: %w", sessionKey, err)
	}
	err := protocol.SetTitle(ctx, c.rdb, sessionKey, title)
	if err != nil {
		return fmt.Errorf("title of %s: %w", sessionKey, protocol.Unchanged(err, false))
	}
	return nil
}

// Configure sets a session's rules for messages that arrive while a turn runs. It replaces all of
// them; a zero field means the worker's setting. The error wraps session.ErrInvalid if the session
// key is wrong, and session.ErrUnchanged if nothing was changed.
func (c *Client) Configure(ctx context.Context, sessionKey string, s session.QueueSettings) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	if err := c.index(ctx, sessionKey); err != nil {
		return fmt.Errorf("configure %s: %w", sessionKey, err)
	}
	err := protocol.Configure(ctx, c.rdb, sessionKey, s)
	if err != nil {
		return fmt.Errorf("configure %s: %w", sessionKey, protocol.Unchanged(err, false))
	}
	return nil
}

// SetReplyTo sets where the outcomes of a session's messages go, unless a message says otherwise. It
// applies to messages that are stored later. An empty destination removes it. The error wraps
// session.ErrInvalid if the session key or the destination is wrong, and session.ErrUnchanged if
// nothing was changed.
func (c *Client) SetReplyTo(ctx context.Context, sessionKey, destination string) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	if destination != "" {
		if err := session.ValidateDestination(destination); err != nil {
			return err
		}
	}
	if err := c.index(ctx, sessionKey); err != nil {
		return fmt.Errorf("set where %s replies to: %w", sessionKey, err)
	}
	if err := protocol.SetReplyTo(ctx, c.rdb, sessionKey, destination); err != nil {
		return fmt.Errorf("set where %s replies to: %w", sessionKey, protocol.Unchanged(err, false))
	}
	return nil
}
