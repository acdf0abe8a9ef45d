package recovery

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
)

// Every worker runs the periodic jobs. A short-lived key for each job lets one worker at a time do it
// for all. A worker that dies in the middle loses no session: a session leaves an index only after it
// has entered the next.
//
// A session is overdue if its owner or claimer died, if no worker ran when it became due, or if its
// wake-up was lost. An outage may leave any number of them. So they all go through the owned index,
// from which Reap wakes at most RecoveryRate a second. Sessions that are on time do not wait for them.

const (
	// overdueAfter is how late Due may be for a session. A later one is overdue, and left to Reap.
	overdueAfter = 5 * time.Second

	// timerFloor and timerCeiling bound the pause between two runs of Reap or Due.
	timerFloor   = 100 * time.Millisecond
	timerCeiling = time.Second
)

// pauseUntil returns how long to wait for next, a time in ms; 0 means that none is known.
func pauseUntil(now, next int64) time.Duration {
	if next == 0 {
		return timerCeiling
	}
	return min(max(time.Duration(next-now)*time.Millisecond+time.Millisecond, timerFloor), timerCeiling)
}

// Due moves due sessions into the ready index, and leaves overdue ones to Reap. It returns how long to
// wait before the next call.
func (r *Recovery) Due(ctx context.Context) (pause time.Duration, err error) {
	if ok, err := r.alone.Take(ctx, "due", timerCeiling); !ok {
		return timerFloor, err
	}
	now, next, sessions, scores, err := index.ReadDue(ctx, r.rdb, rediskey.Due, index.TimerBatch)
	if err != nil {
		return timerCeiling, err
	}
	pause = pauseUntil(now, next)
	if len(sessions) > 0 {
		onTime, overdue := splitOverdue(now, r.ValidNames(slices.Clone(sessions)), scores)
		w := index.Wakes(now, r.cfg.Grace(), onTime...)
		// They enter the owned index before they leave this one, because a full Redis refuses the
		// first. They leave before they can be claimed: a claim may have to wait and enter the session
		// here again, and LT would keep the earlier score.
		_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			index.StillActive(ctx, p, now, woken(onTime)...)
			w.Owned(ctx, p)
			index.QueueRecovery(ctx, p, overdue...)
			return nil
		})
		if err == nil {
			err = index.InOrder(ctx, r.rdb,
				func(p redis.Pipeliner) {
					call := index.Rescore(rediskey.Due, sessions, scores, nil)
					call.Script.Full(ctx, p, call.Keys, call.Args...)
				},
				func(p redis.Pipeliner) { w.Ready(ctx, p) })
		}
		if err != nil {
			return timerCeiling, err
		}
		pause = timerFloor
	}
	if len(sessions) == index.TimerBatch {
		pause = 0 // there may be more sessions after the overdue ones
	}
	return pause, r.alone.Yield(ctx, "due", min(pause, timerFloor))
}

// woken are the sessions of wake-ups that take effect at once.
func woken(ups []index.WakeUp) (sessions []string) {
	for _, u := range ups {
		if u.At == 0 {
			sessions = append(sessions, u.Session)
		}
	}
	return sessions
}

// splitOverdue separates sessions that are on time from overdue ones, which keep the time at which
// they were due.
func splitOverdue(now int64, sessions []string, scores map[string]string) (onTime []index.WakeUp, overdue []redis.Z) {
	for _, s := range sessions {
		// Redis wrote the score. One that cannot be read counts as overdue.
		at, _ := strconv.ParseFloat(scores[s], 64)
		if float64(now)-at > float64(overdueAfter.Milliseconds()) {
			overdue = append(overdue, redis.Z{Score: at, Member: s})
		} else {
			onTime = append(onTime, index.WakeUp{Session: s})
		}
	}
	return onTime, overdue
}
