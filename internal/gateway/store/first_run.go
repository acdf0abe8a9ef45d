package store

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// FirstRun returns the fencing token of the first of the runs that a session's turn goes on from, while it
// runs or waits to be run again; 0: there is none.
func (s *Store) FirstRun(ctx context.Context, sessionKey string) (fence int64, err error) {
	fence, err = s.rdb.HGet(ctx, rediskey.For(sessionKey).Journal(), "began").Int64()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return fence, err
}
