package protocol

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// The periodic jobs run on every worker, each behind a short-lived key, so that
// one worker at a time does the work of all. None may lose a session when it
// dies half-way: a session leaves an index only after it has entered the next.
//
// A session that is late is recovered, not just woken: its owner or claimer
// died, its time came while no worker looked, or nobody had announced it. After
// an outage there may be any number of them at once, so all of them go one way:
// through the owned index, from where Reap puts at most RecoveryRate a second to
// work. Who is on time passes them by.

const (
	// timerBatch is how many members of an index one run reads.
	timerBatch = 1000

	// overdueAfter is how late the mover of the due index may be before that was an
	// outage, and what it finds a recovery.
	overdueAfter = 5 * time.Second

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

// alone runs a job unless another worker does. The job calls goOn after each batch, which
// extends its time and answers an error once it is to end. When ctx ends there is no
// error: what is left is the next run's.
func (c *Consumer) alone(ctx context.Context, job string, run func(goOn func() error) error) error {
	ok, err := c.turnOf(ctx, job, sweepLease)
	if ok {
		err = run(func() error { return errors.Join(ctx.Err(), c.yieldTimer(ctx, job, sweepLease)) })
		err = errors.Join(err, c.rdb.Del(context.WithoutCancel(ctx), rediskey.Timer(job)).Err())
	}
	if ctx.Err() != nil {
		err = nil
	}
	return err
}

// pauseUntil is how long to wait for something at next (ms, 0: nothing is known).
func pauseUntil(now, next int64) time.Duration {
	if next == 0 {
		return timerCeiling
	}
	return min(max(time.Duration(next-now)*time.Millisecond+time.Millisecond, timerFloor), timerCeiling)
}

// Due moves the sessions whose time has come into the ready index. Those whose
// time came long ago, because no worker or no Redis was there, it leaves to Reap.
// It answers how long to wait before the next call.
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
		onTime, late := splitLate(now, c.named(slices.Clone(sessions)), scores)
		w := wakes(now, c.grace(), onTime...)
		// They leave this index when they have entered the owned one, for Redis may have
		// refused that (OOM), and before anybody can take them: a claim that finds that
		// one has to wait after all enters it again, and LT keeps an earlier score.
		_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			w.owned(ctx, p)
			queueRecovery(ctx, p, late...)
			return nil
		})
		if err == nil {
			err = inOrder(ctx, c.rdb,
				func(p redis.Pipeliner) {
					rescoreScript().Eval(ctx, p, []string{rediskey.Due}, rescoreArgs(sessions, scores, nil)...)
				},
				func(p redis.Pipeliner) { w.ready(ctx, p) })
		}
		if err != nil {
			return timerCeiling, err
		}
		pause = timerFloor
	}
	if len(sessions) == timerBatch {
		pause = 0 // those on time stand behind those that are late
	}
	return pause, c.yieldTimer(ctx, "due", min(pause, timerFloor))
}

// splitLate tells sessions that are due on time from those that are overdue,
// which keep the time at which they were due.
func splitLate(now int64, sessions []string, scores map[string]string) (onTime []wakeUp, late []redis.Z) {
	for _, s := range sessions {
		// Redis wrote it; what could not be read would be a session of long ago.
		at, _ := strconv.ParseFloat(scores[s], 64)
		if float64(now)-at > float64(overdueAfter.Milliseconds()) {
			late = append(late, redis.Z{Score: at, Member: s})
		} else {
			onTime = append(onTime, wakeUp{session: s})
		}
	}
	return onTime, late
}
