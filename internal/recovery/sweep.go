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

// Sweep checks every session and finds those that can be claimed and are in no index: their
// sender died half-way, a plain asynq.Client stored a task, or somebody pressed Run or Resume in
// asynqmon. It wakes a few at once and leaves the rest to Reap. One worker sweeps in an interval;
// the calls of the others return 0 at once. It returns how many sessions it found and how long to
// wait before the next call.
func (r *Recovery) Sweep(ctx context.Context, interval time.Duration) (found int, pause time.Duration, err error) {
	lease, began := min(interval, protocol.AloneFor), time.Now()
	if ok, err := r.alone.Take(ctx, "sweep", lease); !ok {
		left, pttlErr := r.rdb.PTTL(ctx, rediskey.Timer("sweep")).Result()
		return 0, max(left, timerFloor), errors.Join(err, pttlErr)
	}
	now, err := r.rdb.Time(ctx).Result()
	if err != nil {
		return 0, lease, err
	}
	var failed error
	visit := func(sessions []string) error {
		n, err := r.sweep(ctx, now.UnixMilli(), sessions, max(r.burst()-found, 0))
		found += n
		failed = errors.Join(failed, err) // a broken session must not hide the others
		return errors.Join(ctx.Err(), r.alone.Yield(ctx, "sweep", lease))
	}
	err = r.EverySession(ctx, visit)
	// Sweeps take at most half of the time, however slow they are.
	took := time.Since(began)
	pause = max(interval-took, took)
	return found, pause, errors.Join(failed, err, r.alone.Yield(ctx, "sweep", pause))
}

// sweep wakes up to budget of the sessions.
func (r *Recovery) sweep(ctx context.Context, now int64, sessions []string, budget int) (found int, err error) {
	if sessions, err = r.unwatched(ctx, now, sessions); err != nil || len(sessions) == 0 {
		return 0, err
	}
	sessions, err = r.WithTasks(ctx, sessions, rediskey.Session.Pending, rediskey.Session.Active, rediskey.Session.Scheduled, rediskey.Session.Retry, rediskey.Session.Stopped)
	if err != nil || len(sessions) == 0 {
		return 0, err
	}
	var names []any
	var known, overdue []redis.Z
	var ups []protocol.WakeUp
	for i, l := range protocol.Look(ctx, r.rdb, sessions) {
		s := sessions[i]
		names = append(names, rediskey.Queue(s))
		known = append(known, redis.Z{Score: float64(now), Member: s})
		switch {
		case l.Err != nil:
			err = errors.Join(err, fmt.Errorf("check session %s: %w", s, l.Err))
		case l.What == protocol.LookOwned:
			overdue = append(overdue, redis.Z{Score: float64(l.Now + l.N), Member: s}) // at its sentinel's end
		case l.What == protocol.LookReady && l.N == 1: // its owner died
			overdue = append(overdue, redis.Z{Score: float64(now), Member: s})
		case l.What == protocol.LookReady:
			if found++; found <= budget {
				ups = append(ups, protocol.WakeUp{Session: s})
			} else {
				overdue = append(overdue, redis.Z{Score: float64(now), Member: s})
			}
		case l.What == protocol.LookWait:
			ups = append(ups, protocol.WakeUp{Session: s, At: l.N})
		}
	}
	w := protocol.Wakes(now, r.cfg.Grace(), ups...)
	failed := protocol.InOrder(ctx, r.rdb,
		func(p redis.Pipeliner) {
			p.SAdd(ctx, rediskey.AllQueues, names...)
			p.ZAddNX(ctx, rediskey.Sessions, known...)
			w.Owned(ctx, p)
			protocol.QueueRecovery(ctx, p, overdue...)
		},
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
	return found, errors.Join(err, failed)
}

// unwatched returns the sessions that neither a worker nor Reap will find.
func (r *Recovery) unwatched(ctx context.Context, now int64, sessions []string) ([]string, error) {
	rest, err := r.Absent(ctx, rediskey.Ready, sessions)
	if err != nil || len(rest) == 0 {
		return nil, err
	}
	next, err := r.rdb.ZMScore(ctx, rediskey.Owned, rest...).Result()
	if err != nil {
		return nil, err
	}
	unwatched := rest[:0]
	for i, s := range rest {
		if next[i] == 0 || next[i] > float64(now) {
			unwatched = append(unwatched, s)
		}
	}
	return unwatched, nil
}
