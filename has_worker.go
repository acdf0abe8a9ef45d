package turnstile

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
)

const (
	// signWindow is how long HasWorker looks for the keys of these jobs. It is longer than the
	// pause between two runs, even with a slow Redis.
	signWindow = 1500 * time.Millisecond

	signEvery = 40 * time.Millisecond
)

// HasWorker reports whether a worker runs on this Redis database. It looks for heartbeats and for
// the jobs of every worker, also of one without maintenance. It usually returns true after one
// command, and false after 1.5 seconds. It returns an error if a read fails, for example because
// the Redis user may not read these keys, or if ctx ends.
func (c *Client) HasWorker(ctx context.Context) (bool, error) {
	if has, err := c.hasHeartbeat(ctx); has || err != nil {
		return has, err
	}
	tick := time.NewTicker(signEvery)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < signWindow; {
		for _, job := range maintenance.EverySecond() { // one by one: on a Cluster they have different slots
			n, err := c.rdb.Exists(ctx, rediskey.Timer(job)).Result()
			if err != nil {
				return false, fmt.Errorf("look for workers: %w", err)
			}
			if n > 0 {
				return true, nil
			}
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
	}
	return c.hasHeartbeat(ctx) // a worker may have started meanwhile
}

func (c *Client) hasHeartbeat(ctx context.Context) (bool, error) {
	n, err := maintenance.CountHeartbeats(ctx, c.rdb)
	if err != nil {
		return false, fmt.Errorf("look for workers: %w", err)
	}
	return n > 0, nil
}
