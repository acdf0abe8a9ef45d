package admin

import (
	"context"
	"fmt"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Paused reports whether an operator has paused a session. A paused session runs no further turns.
// A sender's Redis user may read it. The error wraps session.ErrInvalid if the session key is
// wrong.
func (a *Client) Paused(ctx context.Context, sessionKey string) (bool, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return false, err
	}
	n, err := a.rdb.Exists(ctx, rediskey.For(sessionKey).Paused()).Result()
	if err != nil {
		return false, fmt.Errorf("read whether %s is paused: %w", sessionKey, err)
	}
	return n > 0, nil
}
