package store

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// TokensToday returns the input and output tokens that the agents of all workers have reported today, in
// UTC by Redis' clock. It is nil if there are none, or if the Redis user may not read them. Each worker
// writes its count once a second, so a killed worker's last tokens are missing.
func (s *Store) TokensToday(ctx context.Context) (*session.Usage, error) {
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("read the day's tokens: %w", err)
	}
	read := s.rdb.HMGet(ctx, rediskey.Tokens(now), "input", "output")
	switch err := read.Err(); {
	case redis.HasErrorPrefix(err, "NOPERM"):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the day's tokens: %w", err)
	}
	stored := script.HashFields(read)
	used := session.Usage{InputTokens: stored.Int("input"), OutputTokens: stored.Int("output")}
	if used == (session.Usage{}) {
		return nil, nil
	}
	return &used, nil
}
