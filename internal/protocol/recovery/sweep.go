package recovery

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
)

// tasks are the keys of a session that has work.
var tasks = []func(rediskey.Session) string{
	rediskey.Session.Pending, rediskey.Session.Active, rediskey.Session.Scheduled, rediskey.Session.Retry, rediskey.Session.Stopped,
}

// outboxKeys are the keys of a session that owes or stores an outcome.
var outboxKeys = []func(rediskey.Session) string{rediskey.Session.Owed, rediskey.Session.Outbox}

// anything are the keys of a session that a sweep looks at further.
var anything = slices.Concat(tasks, outboxKeys, marks)

// The pause after a sweep is at least sweepPause times its work, so sweeps take at most a fifth of the time.
// A batch of sessions counts for at most sweepBatch: if it took longer, Redis or this process stood still.
const (
	sweepPause = 4
	sweepBatch = time.Second
)

// Sweep checks every session, and finds those that can be claimed and are in no index: their sender
// died, a plain asynq.Client stored a task, or somebody pressed Run or Resume in asynqmon. It wakes a
// few at once and leaves the rest to Reap. It returns how many sessions it found, and how long to wait
// before the next call. One worker sweeps in each interval; the calls of the others return 0 at once.
func (r *Recovery) Sweep(ctx context.Context, interval time.Duration) (found int, pause time.Duration, err error) {
	lease, began := min(interval, protocol.AloneFor), time.Now()
	if ok, err := r.alone.Take(ctx, "sweep", lease); !ok {
		left, pttlErr := r.rdb.PTTL(ctx, rediskey.Timer("sweep")).Result()
		return 0, max(left, timerFloor), errors.Join(err, pttlErr)
	}
	now, since, err := r.sinceSweep(ctx)
	if err != nil {
		return 0, lease, err
	}
	since = max(since, interval)
	var failed error
	counted := true // seen has all sessions
	var seen waits
	var worked time.Duration
	visit := func(sessions []string) error {
		batch := time.Now()
		near, err := r.NearTasks(ctx, sessions, anything...)
		if err == nil {
			err = r.repairLists(ctx, now.UnixMilli(), sessions, near, &seen)
		}
		counted = counted && err == nil
		n, sweepErr := r.sweep(ctx, now.UnixMilli(), since, near, max(r.burst()-found, 0))
		found += n
		err = errors.Join(err, sweepErr)
		failed = errors.Join(failed, err) // a broken session must not hide the others
		worked += min(time.Since(batch), sweepBatch)
		return errors.Join(ctx.Err(), r.alone.Yield(ctx, "sweep", lease))
	}
	err = r.EverySession(ctx, visit)
	if err == nil && counted {
		err = seen.store(ctx, r.rdb)
	}
	if err == nil && failed == nil {
		err = r.rdb.Set(ctx, rediskey.Swept, now.UnixMilli(), outboxRecheck).Err()
	}
	pause = max(interval-time.Since(began), sweepPause*worked, timerFloor)
	return found, pause, errors.Join(failed, err, r.alone.Yield(ctx, "sweep", pause))
}

// sinceSweep returns Redis' time, and how long ago the last complete sweep began (outboxRecheck if
// unknown).
func (r *Recovery) sinceSweep(ctx context.Context) (now time.Time, since time.Duration, err error) {
	if now, err = r.rdb.Time(ctx).Result(); err != nil {
		return now, 0, err
	}
	last, err := r.rdb.Get(ctx, rediskey.Swept).Int64()
	if errors.Is(err, redis.Nil) {
		return now, outboxRecheck, nil
	}
	return now, now.Sub(time.UnixMilli(last)), err
}

// sweep wakes at most budget of the sessions, even if it cannot index their outboxes.
func (r *Recovery) sweep(ctx context.Context, now int64, since time.Duration, sessions []string, budget int) (found int, err error) {
	unindexed := r.indexOutbox(ctx, now, since, sessions)
	found, err = r.wake(ctx, now, sessions, budget)
	return found, errors.Join(unindexed, err)
}

func (r *Recovery) wake(ctx context.Context, now int64, sessions []string, budget int) (found int, err error) {
	if sessions, err = r.unwatched(ctx, now, sessions); err != nil || len(sessions) == 0 {
		return 0, err
	}
	sessions, err = r.WithTasks(ctx, sessions, tasks...)
	if err != nil || len(sessions) == 0 {
		return 0, err
	}
	var names []any
	var known, overdue []redis.Z
	var ups []index.WakeUp
	for i, l := range protocol.Look(ctx, r.rdb, sessions) {
		s := sessions[i]
		names = append(names, rediskey.Queue(s))
		known = append(known, redis.Z{Score: float64(now), Member: s})
		switch {
		case l.Err != nil:
			err = errors.Join(err, fmt.Errorf("check session %s: %w", s, l.Err))
		case l.State == protocol.LookOwned:
			overdue = append(overdue, redis.Z{Score: float64(l.Now + l.N), Member: s}) // at its sentinel's end
		case l.State == protocol.LookReady && l.N == 1: // its owner died
			overdue = append(overdue, redis.Z{Score: float64(now), Member: s})
		case l.State == protocol.LookReady:
			if found++; found <= budget {
				ups = append(ups, index.WakeUp{Session: s})
			} else {
				overdue = append(overdue, redis.Z{Score: float64(now), Member: s})
			}
		case l.State == protocol.LookWait:
			ups = append(ups, index.WakeUp{Session: s, At: l.N})
		}
	}
	w := index.Wakes(now, r.cfg.Grace(), ups...)
	failed := index.InOrder(ctx, r.rdb,
		func(p redis.Pipeliner) {
			p.SAdd(ctx, rediskey.AllQueues, names...)
			p.ZAddNX(ctx, rediskey.Sessions, known...)
			p.ZAddNX(ctx, rediskey.Names, named(sessions)...)
			index.StillActive(ctx, p, now, woken(ups)...)
			w.Owned(ctx, p)
			index.QueueRecovery(ctx, p, overdue...)
		},
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
	return found, errors.Join(err, failed)
}

// outboxRecheck is how often sweeps send deliverers to a session that probably has nothing to deliver:
// its lines wait for their receivers, or its messages have not ended.
const outboxRecheck = time.Minute

// indexOutbox sends deliverers to sessions that store a record, because its notice may be lost. Each
// sweep adds some of the sessions that only owe an outcome: the message usually waits or runs, but an
// operator may have deleted it.
func (r *Recovery) indexOutbox(ctx context.Context, now int64, since time.Duration, sessions []string) error {
	sessions, err := r.WithTasks(ctx, sessions, outboxKeys...)
	if err != nil || len(sessions) == 0 {
		return err
	}
	storing, err := r.WithTasks(ctx, sessions, rediskey.Session.Outbox)
	if err != nil {
		return err
	}
	owing := slices.DeleteFunc(index.Without(sessions, storing), func(s string) bool { return !dueInSweep(s, now, since) })
	return deliveries.CheckOutboxes(ctx, r.rdb, now, outboxRecheck, storing, owing)
}

// dueInSweep reports whether a sweep checks a session that only owes an outcome. now is the sweep's time;
// since is how long before now the previous sweep began. Each session has one moment in every
// outboxRecheck, and the first sweep after that moment checks it.
func dueInSweep(session string, now int64, since time.Duration) bool {
	moment := int64(crc32.ChecksumIEEE([]byte(session)))
	ago := (now - moment) % outboxRecheck.Milliseconds()
	return ago < since.Milliseconds()
}

// unwatched returns the sessions that neither workers nor Reap will find.
func (r *Recovery) unwatched(ctx context.Context, now int64, sessions []string) ([]string, error) {
	rest, err := r.notWaiting(ctx, sessions)
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
