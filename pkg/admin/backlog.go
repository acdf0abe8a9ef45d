package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// Backlog counts the sessions in each index.
type Backlog struct {
	Ready int64 // sessions that wait for a free slot of a worker
	Due   int64 // sessions that wait for a time: of a delayed message, a retry, or collected messages
	Owned int64 // sessions that reap checks: those of Ready, those with an owner, and those whose owner died

	// Oldest is how long the first session of Ready has waited, by Redis' clock. 0 if Ready is 0.
	Oldest time.Duration
}

// Backlog reads the counts in one round trip.
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
