package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Tail reads the last n entries of the transcript that holds now.
func (a *Client) Tail(ctx context.Context, sessionKey string, n int) ([]session.Entry, error) {
	k := rediskey.For(sessionKey)
	id, err := a.rdb.HGet(ctx, k.Record(), "session_id").Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", sessionKey, err)
	}
	return session.ReadTail(ctx, a.rdb, sessionKey, id, n)
}
