package recovery

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
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
	// overdueAfter is how late the mover of the due index may be before that was an
	// outage, and what it finds a recovery.
	overdueAfter = 5 * time.Second

	// timerFloor and timerCeiling bound the pause between two runs of Reap or Due.
	timerFloor   = 100 * time.Millisecond
	timerCeiling = time.Second
)

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
func (c *Recovery) Due(ctx context.Context) (pause time.Duration, err error) {
	if ok, err := c.alone.Take(ctx, "due", timerCeiling); !ok {
		return timerFloor, err
	}
	now, next, sessions, scores, err := protocol.ReadDue(ctx, c.rdb, rediskey.Due, protocol.TimerBatch)
	if err != nil {
		return timerCeiling, err
	}
	pause = pauseUntil(now, next)
	if len(sessions) > 0 {
		onTime, late := splitLate(now, c.Named(slices.Clone(sessions)), scores)
		w := protocol.Wakes(now, c.cfg.Grace(), onTime...)
		// They leave this index when they have entered the owned one, for Redis may have
		// refused that (OOM), and before anybody can take them: a claim that finds that
		// one has to wait after all enters it again, and LT keeps an earlier score.
		_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			w.Owned(ctx, p)
			protocol.QueueRecovery(ctx, p, late...)
			return nil
		})
		if err == nil {
			err = protocol.InOrder(ctx, c.rdb,
				func(p redis.Pipeliner) {
					protocol.RescoreScript().Eval(ctx, p, []string{rediskey.Due}, protocol.RescoreArgs(sessions, scores, nil)...)
				},
				func(p redis.Pipeliner) { w.Ready(ctx, p) })
		}
		if err != nil {
			return timerCeiling, err
		}
		pause = timerFloor
	}
	if len(sessions) == protocol.TimerBatch {
		pause = 0 // those on time stand behind those that are late
	}
	return pause, c.alone.Yield(ctx, "due", min(pause, timerFloor))
}

// splitLate tells sessions that are due on time from those that are overdue,
// which keep the time at which they were due.
func splitLate(now int64, sessions []string, scores map[string]string) (onTime []protocol.WakeUp, late []redis.Z) {
	for _, s := range sessions {
		// Redis wrote it; what could not be read would be a session of long ago.
		at, _ := strconv.ParseFloat(scores[s], 64)
		if float64(now)-at > float64(overdueAfter.Milliseconds()) {
			late = append(late, redis.Z{Score: at, Member: s})
		} else {
			onTime = append(onTime, protocol.WakeUp{Session: s})
		}
	}
	return onTime, late
}
