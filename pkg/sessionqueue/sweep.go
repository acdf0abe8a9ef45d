package sessionqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// Sweep looks at every session there is and wakes those that can be claimed and
// that no index knows of: their sender died half-way, a plain asynq.Client put a
// task in, or somebody pressed Run or Resume in asynqmon. Only one worker does
// so in an interval; the others' calls answer 0 at once. It answers how long to
// wait before the next call.
func (c *Consumer) Sweep(ctx context.Context, interval time.Duration) (woken int, pause time.Duration, err error) {
	if ok, err := c.turnOf(ctx, "sweep", interval); !ok {
		left, pttlErr := c.rdb.PTTL(ctx, rediskey.Timer("sweep")).Result()
		return 0, max(left, timerFloor), errors.Join(err, pttlErr)
	}
	seen := map[string]bool{}
	var failed error
	visit := func(sessions []string) error {
		var unseen []string
		for _, s := range sessions {
			if !seen[s] {
				seen[s] = true
				unseen = append(unseen, s)
			}
		}
		n, err := c.sweep(ctx, unseen)
		woken += n
		failed = errors.Join(failed, err) // one broken session must not hide the others
		return ctx.Err()
	}
	err = errors.Join(c.eachQueue(ctx, visit), c.eachSession(ctx, visit))
	return woken, interval, errors.Join(failed, err)
}

func (c *Consumer) sweep(ctx context.Context, sessions []string) (woken int, err error) {
	if sessions, err = c.unannounced(ctx, sessions); err != nil || len(sessions) == 0 {
		return 0, err
	}
	sessions, err = c.withTasks(ctx, sessions, rediskey.Session.Pending, rediskey.Session.Active, rediskey.Session.Scheduled, rediskey.Session.Retry)
	if err != nil || len(sessions) == 0 {
		return 0, err
	}
	_, pipeErr := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range c.look(ctx, sessions) {
			s := sessions[i]
			p.SAdd(ctx, rediskey.AllQueues, rediskey.Queue(s))
			p.ZAddNX(ctx, rediskey.Sessions, redis.Z{Score: float64(l.now), Member: s})
			switch {
			case l.err != nil:
				err = errors.Join(err, fmt.Errorf("look at %s: %w", s, l.err))
			case l.what == lookHeld || l.what == lookReady && l.n == 1:
				// Reap's, which paces what it recovers.
				p.ZAddNX(ctx, rediskey.Owned, redis.Z{Score: float64(l.now), Member: s})
			case l.what == lookReady:
				queueWake(ctx, p, l.now, c.grace(), wakeUp{session: s})
				woken++
			case l.what == lookWait:
				queueWake(ctx, p, 0, 0, wakeUp{s, l.n})
			}
		}
		return nil
	})
	return woken, errors.Join(err, pipeErr)
}
