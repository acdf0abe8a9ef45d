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
		hold = max(hold, time.Duration(float64(recovered)/c.cfg.RecoveryRate*float64(time.Second)))
	}
	return recovered, max(hold, pauseUntil(now, next)), c.yieldTimer(ctx, "reap", hold)
}

func (c *Consumer) reap(ctx context.Context, now int64, sessions []string, scores map[string]string, budget int) (recovered int, err error) {
	// Those that still wait for a worker need no look into their own keys.
	queued, err := c.rdb.ZMScore(ctx, rediskey.Ready, sessions...).Result()
	if err != nil {
		return 0, err
	}
	var later []redis.Z // looked at again at the score
	var look []string
	grace := float64(now + c.grace().Milliseconds())
	for i, s := range sessions {
		if queued[i] != 0 {
			later = append(later, redis.Z{Score: grace, Member: s})
		} else {
			look = append(look, s)
		}
	}
	var drop []string
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
	if len(sessions) == 0 {
		return 0, nil
	}
	busy, err := c.withTasks(ctx, sessions, rediskey.Session.Pending, rediskey.Session.Active, rediskey.Session.Scheduled, rediskey.Session.Retry)
	if err != nil || len(busy) == 0 {
		return 0, err
	}
	queued, err := c.rdb.ZMScore(ctx, rediskey.Ready, busy...).Result()
	if err != nil {
		return 0, err
	}
	unannounced := busy[:0]
	for i, s := range busy {
		if queued[i] == 0 {
			unannounced = append(unannounced, s)
		}
	}
	_, pipeErr := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, l := range c.look(ctx, unannounced) {
			s := unannounced[i]
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
