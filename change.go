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

// index makes a session known before its record is written, so that Forget finds a
// record that no message has come to.
func (c *Client) index(ctx context.Context, sessionKey string) error {
	now, err := c.tasks.Now(ctx)
	if err != nil {
		return protocol.Unchanged(err, false)
	}
	return protocol.Unchanged(c.rdb.ZAdd(ctx, rediskey.Sessions, redis.Z{Score: float64(now), Member: sessionKey}).Err(), false)
}

// Rotate gives the session another session id: the next message begins another
// transcript under the same key, queue and lock, and a turn that is running
// finishes into the old one. Only the session id old is replaced; if it is empty, the
// one that holds now. It answers the session id that holds then.
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
	if old == "" { // else there is a record, or nothing is written
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

// SetTitle gives the conversation a title that no agent overwrites; an empty one
// takes it away. Errors about the title wrap session.ErrInvalid.
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

// Configure says what messages do that find the session busy and name no mode.
// The zero Settings are those of the worker.
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
