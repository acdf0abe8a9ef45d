package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
)

// Sweep looks at every session there is and finds those that can be claimed and
// that no index knows of: their sender died half-way, a plain asynq.Client put a
// task in, or somebody pressed Run or Resume in asynqmon. A few it puts to work at
// once; where they are many, the rest is left to Reap. Only one worker does so in
// an interval; the others' calls answer 0 at once. It answers how many it found
// and how long to wait before the next call.
func (c *Recovery) Sweep(ctx context.Context, interval time.Duration) (found int, pause time.Duration, err error) {
	lease, began := min(interval, protocol.AloneFor), time.Now()
	if ok, err := c.alone.Take(ctx, "sweep", lease); !ok {
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
		return errors.Join(ctx.Err(), c.alone.Yield(ctx, "sweep", lease))
	}
	err = c.EverySession(ctx, visit)
	// No more than half of the time is spent in sweeps, however long they take.
	took := time.Since(began)
	pause = max(interval-took, took)
	return found, pause, errors.Join(failed, err, c.alone.Yield(ctx, "sweep", pause))
}

// sweep wakes up to budget of the sessions.
func (c *Recovery) sweep(ctx context.Context, now int64, sessions []string, budget int) (found int, err error) {
	if sessions, err = c.forgotten(ctx, now, sessions); err != nil || len(sessions) == 0 {
		return 0, err
	}
	sessions, err = c.WithTasks(ctx, sessions, rediskey.Session.Pending, rediskey.Session.Active, rediskey.Session.Scheduled, rediskey.Session.Retry, rediskey.Session.Stopped)
	if err != nil || len(sessions) == 0 {
		return 0, err
	}
	var names []any
	var known, late []redis.Z
	var ups []protocol.WakeUp
	for i, l := range protocol.Look(ctx, c.rdb, sessions) {
		s := sessions[i]
		names = append(names, rediskey.Queue(s))
		known = append(known, redis.Z{Score: float64(now), Member: s})
		switch {
		case l.Err != nil:
			err = errors.Join(err, fmt.Errorf("look at %s: %w", s, l.Err))
		case l.What == protocol.LookHeld:
			late = append(late, redis.Z{Score: float64(l.Now + l.N), Member: s}) // its sentinel's end
		case l.What == protocol.LookReady && l.N == 1: // a dead owner's
			late = append(late, redis.Z{Score: float64(now), Member: s})
		case l.What == protocol.LookReady:
			if found++; found <= budget {
				ups = append(ups, protocol.WakeUp{Session: s})
			} else {
				late = append(late, redis.Z{Score: float64(now), Member: s})
			}
		case l.What == protocol.LookWait:
			ups = append(ups, protocol.WakeUp{Session: s, At: l.N})
		}
	}
	w := protocol.Wakes(now, c.cfg.Grace(), ups...)
	failed := protocol.InOrder(ctx, c.rdb,
		func(p redis.Pipeliner) {
			p.SAdd(ctx, rediskey.AllQueues, names...)
			p.ZAddNX(ctx, rediskey.Sessions, known...)
			w.Owned(ctx, p)
			protocol.QueueRecovery(ctx, p, late...)
		},
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
	return found, errors.Join(err, failed)
}

// forgotten keeps the sessions that wait neither for a worker nor for Reap.
func (c *Recovery) forgotten(ctx context.Context, now int64, sessions []string) ([]string, error) {
	rest, err := c.Absent(ctx, rediskey.Ready, sessions)
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
