package sessionqueue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// The periodic jobs run on every worker, each behind a short-lived key, so that
// one worker at a time does the work of all. None may lose a session when it
// dies half-way: a session leaves an index only after it has entered the next.

const (
	timerBatch = 1000

	// lookBatch bounds how many sessions one run of Reap looks at by script, beside
	// ten for each that it may recover.
	lookBatch = 100

	// timerFloor and timerCeiling bound the pause between two runs of Reap or Due.
	timerFloor   = 100 * time.Millisecond
	timerCeiling = time.Second
)

// turnOf takes the timer's key for at most hold; false: another worker has it.
func (c *Consumer) turnOf(ctx context.Context, job string, hold time.Duration) (bool, error) {
	err := c.rdb.SetArgs(ctx, rediskey.Timer(job), c.cfg.Worker, redis.SetArgs{Mode: "NX", TTL: hold}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// yieldTimer lets the next run begin after pause.
func (c *Consumer) yieldTimer(ctx context.Context, job string, pause time.Duration) error {
	return c.rdb.PExpire(ctx, rediskey.Timer(job), pause).Err()
}

// pauseUntil is how long to wait for something at next (ms, 0: nothing is known).
func pauseUntil(now, next int64) time.Duration {
	if next == 0 {
		return timerCeiling
	}
	return min(max(time.Duration(next-now)*time.Millisecond+time.Millisecond, timerFloor), timerCeiling)
}

// Due moves the sessions whose time has come into the ready index. It answers
// how long to wait before the next call.
func (c *Consumer) Due(ctx context.Context) (pause time.Duration, err error) {
	if ok, err := c.turnOf(ctx, "due", timerCeiling); !ok {
		return timerFloor, err
	}
	now, next, sessions, scores, err := dueMembers(ctx, c.rdb, rediskey.Due, timerBatch)
	if err != nil {
		return timerCeiling, err
	}
	pause = pauseUntil(now, next)
	if len(sessions) > 0 {
		if err := wake(ctx, c.rdb, now, c.grace(), wakeUps(sessions)...); err != nil {
			return timerCeiling, err
		}
		if err := removeUnchanged(ctx, c.rdb, rediskey.Due, sessions, scores); err != nil {
			return timerCeiling, err
		}
		pause = timerFloor
	}
	return pause, c.yieldTimer(ctx, "due", min(pause, timerFloor))
}

func wakeUps(sessions []string) []wakeUp {
	ups := make([]wakeUp, len(sessions))
	for i, s := range sessions {
		ups[i].session = s
	}
	return ups
}

// Reap looks after the sessions that should have been looked after by now: it
// puts those of dead owners and dead claimers back into the ready index, at most
// RecoveryRate a second among all workers, and takes those with nothing left to
// run out of the owned index. It answers how many it recovered and how long to
// wait before the next call.
func (c *Consumer) Reap(ctx context.Context) (recovered int, pause time.Duration, err error) {
	if ok, err := c.turnOf(ctx, "reap", 2*timerCeiling); !ok {
		return 0, timerFloor, err
	}
	now, next, sessions, scores, err := dueMembers(ctx, c.rdb, rediskey.Owned, timerBatch)
	if err != nil {
		return 0, timerCeiling, errors.Join(err, c.yieldTimer(ctx, "reap", timerFloor))
	}
	hold := timerFloor
	if len(sessions) > 0 {
		budget := int(math.Ceil(c.cfg.RecoveryRate * timerFloor.Seconds()))
		if recovered, err = c.reap(ctx, now, sessions, scores, budget); err != nil {
			return recovered, timerCeiling, errors.Join(err, c.yieldTimer(ctx, "reap", timerFloor))
		}
		next = now
		// What was recovered is paid for with time in which nobody reaps.
		hold = max(hold, time.Duration(min(float64(recovered)/c.cfg.RecoveryRate, 3600)*float64(time.Second)))
	}
	return recovered, max(hold, pauseUntil(now, next)), c.yieldTimer(ctx, "reap", hold)
}

func (c *Consumer) reap(ctx context.Context, now int64, sessions []string, scores map[string]string, budget int) (recovered int, err error) {
	// Those that still wait for a worker, and those with nothing left, need no
	// look at their state.
	unannounced, err := c.unannounced(ctx, sessions)
	if err != nil {
		return 0, err
	}
	look, err := c.withTasks(ctx, unannounced, rediskey.Session.Sentinel, rediskey.Session.Pending, rediskey.Session.Active,
		rediskey.Session.Scheduled, rediskey.Session.Retry)
	if err != nil {
		return 0, err
	}
	grace := float64(now + c.grace().Milliseconds())
	var later []redis.Z // looked at again at the score
	for _, s := range without(sessions, unannounced) {
		later = append(later, redis.Z{Score: grace, Member: s})
	}
	drop := without(unannounced, look)
	// After a great crash most are orphans that this run may not recover yet: they
	// stay where they are, unlooked at.
	look = look[:min(len(look), lookBatch+10*budget)]
	var ready, waiting []wakeUp
	for i, l := range c.look(ctx, look) {
		s := look[i]
		switch {
		case l.err != nil:
			// One broken session must not stop the others. It stays and is seen again.
			err = errors.Join(err, fmt.Errorf("look at %s: %w", s, l.err))
			later = append(later, redis.Z{Score: float64(now + timerCeiling.Milliseconds()), Member: s})
		case l.what == lookHeld:
			later = append(later, redis.Z{Score: float64(now + max(l.n, 1)), Member: s})
		case l.what == lookReady && l.n == 1 && recovered == budget:
			// Stays where it is for the next run.
		case l.what == lookReady:
			recovered += int(l.n)
			ready = append(ready, wakeUp{session: s})
			later = append(later, redis.Z{Score: grace, Member: s})
		case l.what == lookWait:
			waiting = append(waiting, wakeUp{s, l.n})
			drop = append(drop, s)
		default:
			drop = append(drop, s)
		}
	}
	_, pipeErr := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		queueWake(ctx, p, now, c.grace(), ready...)
		queueWake(ctx, p, 0, 0, waiting...)
		if len(later) > 0 {
			p.ZAddGT(ctx, rediskey.Owned, later...)
		}
		return nil
	})
	if pipeErr != nil {
		return recovered, errors.Join(err, pipeErr)
	}
	return recovered, errors.Join(err, removeUnchanged(ctx, c.rdb, rediskey.Owned, drop, scores))
}

// What the look script answers.
const (
	lookHeld  = "held"
	lookReady = "ready"
	lookWait  = "wait"
)

type looked struct {
	what string
	now  int64
	n    int64
	err  error
}

// look asks of each session whether it may be claimed.
func (c *Consumer) look(ctx context.Context, sessions []string) []looked {
	found := make([]looked, len(sessions))
	at := time.Now()
	replies := c.pipeline(ctx, lookScript, len(sessions), func(i int) ([]string, []any) {
		return keys(sessions[i], "", at), []any{rediskey.For(sessions[i]).TaskPrefix()}
	})
	for i, r := range replies {
		found[i] = looked{what: r.str(1), now: r.int(0), n: r.int(2), err: r.err}
	}
	return found
}
