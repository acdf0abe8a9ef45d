package protocol

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// sweepLease is how long a sweep is left to its worker, which extends that as it goes:
// should it die, another one begins anew.
const sweepLease = 5 * time.Second

// Sweep looks at every session there is and finds those that can be claimed and
// that no index knows of: their sender died half-way, a plain asynq.Client put a
// task in, or somebody pressed Run or Resume in asynqmon. A few it puts to work at
// once; where they are many, the rest is left to Reap. Only one worker does so in
// an interval; the others' calls answer 0 at once. It answers how many it found
// and how long to wait before the next call.
func (c *Consumer) Sweep(ctx context.Context, interval time.Duration) (found int, pause time.Duration, err error) {
	lease, began := min(interval, sweepLease), time.Now()
	if ok, err := c.turnOf(ctx, "sweep", lease); !ok {
		left, pttlErr := c.rdb.PTTL(ctx, rediskey.Timer("sweep")).Result()
		return 0, max(left, timerFloor), errors.Join(err, pttlErr)
	}
	now, err := c.rdb.Time(ctx).Result()
	if err != nil {
		return 0, lease, err
	}
	var failed error
	visit := func(sessions []string) error {
		n, err := c.sweep(ctx, now.UnixMilli(), sessions, max(c.burst()-found, 0))
		found += n
		failed = errors.Join(failed, err) // one broken session must not hide the others
		return errors.Join(ctx.Err(), c.yieldTimer(ctx, "sweep", lease))
	}
	err = c.everySession(ctx, visit)
	// No more than half of the time is spent in sweeps, however long they take.
	took := time.Since(began)
	pause = max(interval-took, took)
	return found, pause, errors.Join(failed, err, c.yieldTimer(ctx, "sweep", pause))
}

// sweep wakes up to budget of the sessions.
func (c *Consumer) sweep(ctx context.Context, now int64, sessions []string, budget int) (found int, err error) {
	if sessions, err = c.forgotten(ctx, now, sessions); err != nil || len(sessions) == 0 {
		return 0, err
	}
	sessions, err = c.withTasks(ctx, sessions, rediskey.Session.Pending, rediskey.Session.Active, rediskey.Session.Scheduled, rediskey.Session.Retry, rediskey.Session.Stopped)
	if err != nil || len(sessions) == 0 {
		return 0, err
	}
	var names []any
	var known, late []redis.Z
	var ups []wakeUp
	for i, l := range c.look(ctx, sessions) {
		s := sessions[i]
		names = append(names, rediskey.Queue(s))
		known = append(known, redis.Z{Score: float64(now), Member: s})
		switch {
		case l.err != nil:
			err = errors.Join(err, fmt.Errorf("look at %s: %w", s, l.err))
		case l.what == lookHeld:
			late = append(late, redis.Z{Score: float64(l.now + l.n), Member: s}) // its sentinel's end
		case l.what == lookReady && l.n == 1: // a dead owner's
			late = append(late, redis.Z{Score: float64(now), Member: s})
		case l.what == lookReady:
			if found++; found <= budget {
				ups = append(ups, wakeUp{session: s})
			} else {
				late = append(late, redis.Z{Score: float64(now), Member: s})
			}
		case l.what == lookWait:
			ups = append(ups, wakeUp{s, l.n})
		}
	}
	w := wakes(now, c.grace(), ups...)
	failed := inOrder(ctx, c.rdb,
		func(p redis.Pipeliner) {
			p.SAdd(ctx, rediskey.AllQueues, names...)
			p.ZAddNX(ctx, rediskey.Sessions, known...)
			w.owned(ctx, p)
			queueRecovery(ctx, p, late...)
		},
		func(p redis.Pipeliner) { w.ready(ctx, p) })
	return found, errors.Join(err, failed)
}

// forgotten keeps the sessions that wait neither for a worker nor for Reap.
func (c *Consumer) forgotten(ctx context.Context, now int64, sessions []string) ([]string, error) {
	rest, err := c.absent(ctx, rediskey.Ready, sessions)
	if err != nil || len(rest) == 0 {
		return nil, err
	}
	next, err := c.rdb.ZMScore(ctx, rediskey.Owned, rest...).Result()
	if err != nil {
		return nil, err
	}
	forgotten := rest[:0]
	for i, s := range rest {
		if next[i] == 0 || next[i] > float64(now) {
			forgotten = append(forgotten, s)
		}
	}
	return forgotten, nil
}
