package protocol

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Announce makes a session known to workers and to asynqmon whose messages came without
// an enqueue.
func Announce(ctx context.Context, rdb redis.UniversalClient, sessionKey string, now, at int64) error {
	w := Wakes(now, ClaimGrace, WakeUp{sessionKey, at})
	return InOrder(ctx, rdb,
		func(p redis.Pipeliner) {
			indexEntry{sessionKey, now}.add(ctx, p)
			w.Owned(ctx, p)
		},
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
}
