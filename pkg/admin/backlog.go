package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// Backlog is what the indexes hold, in sessions.
type Backlog struct {
	Ready int64 // wait for a free slot of any worker
	Due   int64 // wait for their time: a delay, a retry, a quiet window
	Owned int64 // are run, or were a moment ago, or wait for their recovery

	// Oldest is how long the first of Ready has been there. 0: there is none.
	Oldest time.Duration
}

// Backlog reads them, in one round trip.
func (a *Client) Backlog(ctx context.Context) (Backlog, error) {
	var ready, due, owned *redis.IntCmd
	var first *redis.ZSliceCmd
	var now *redis.TimeCmd
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		ready, due, owned = p.ZCard(ctx, rediskey.Ready), p.ZCard(ctx, rediskey.Due), p.ZCard(ctx, rediskey.Owned)
		first = p.ZRangeWithScores(ctx, rediskey.Ready, 0, 0)
		now = p.Time(ctx)
		return nil
	})
	if err != nil {
		return Backlog{}, fmt.Errorf("read the indexes: %w", err)
	}
	b := Backlog{Ready: ready.Val(), Due: due.Val(), Owned: owned.Val()}
	for _, z := range first.Val() {
		b.Oldest = max(0, time.Duration(now.Val().UnixMilli()-int64(z.Score))*time.Millisecond)
	}
	return b, nil
}
