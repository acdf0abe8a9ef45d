package index

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// NeedAttention enters sessions into the index of those that a person may have to look at: with an
// open question or dead letters, paused or suspended, or with an agent that no worker runs. now is Redis' clock in ms.
//
// The index may have too many sessions, so readers check each. A failed call does no harm: the
// sweep adds missing sessions, and removes others unless their time has changed.
func NeedAttention(ctx context.Context, rdb redis.Cmdable, now int64, sessions ...string) error {
	members := make([]redis.Z, len(sessions))
	for i, s := range sessions {
		members[i] = redis.Z{Score: float64(now), Member: s}
	}
	return rdb.ZAdd(ctx, rediskey.Attention, members...).Err()
}
