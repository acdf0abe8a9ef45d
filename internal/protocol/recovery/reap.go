package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
)

// reapBatch is how many sessions Reap checks in one round trip.
const reapBatch = 100

// lineRecheck is how long Reap leaves a session of the ready index alone, for each session there. Reap checks at
// most 10,000 sessions a second, and so a line takes half of them: a session whose owner died does not wait
// behind the line. If the owner of one from a long line dies before its first renewal, Reap finds that later.
const lineRecheck = 200 * time.Microsecond

// burst is how many sessions one run may recover.
func (r *Recovery) burst() int { return int(math.Ceil(r.cfg.RecoveryRate * timerFloor.Seconds())) }

// Reap checks the sessions that are due in the owned index. It moves those that can be claimed into
// the ready index, at most RecoveryRate a second among all workers, and removes those with nothing to
// run. It returns how many it recovered and how long to wait before the next call.
func (r *Recovery) Reap(ctx context.Context) (recovered int, pause time.Duration, err error) {
	if ok, err := r.alone.Take(ctx, "reap", 2*timerCeiling); !ok {
		return 0, timerFloor, err
	}
	began := time.Now()
	now, next, sessions, scores, err := index.ReadDue(ctx, r.rdb, rediskey.Owned, index.TimerBatch)
	if err == nil {
		recovered, err = r.reap(ctx, now, sessions, scores)
		err = errors.Join(err, r.pullForward(ctx, now))
	}
	// No worker reaps again before the rate allows as many recoveries, including the time of this run.
	price := time.Duration(min(float64(recovered)/r.cfg.RecoveryRate, 3600) * float64(time.Second))
	idle := max(max(price, timerFloor)-time.Since(began), 0)
	idle = (idle + time.Millisecond - 1).Truncate(time.Millisecond)
	switch {
	case err != nil:
		pause = timerCeiling
	case len(sessions) > 0:
		pause = idle + time.Millisecond // there may be more; Redis keeps the key for one ms more
	default:
		pause = pauseUntil(now, next)
	}
	return recovered, pause, errors.Join(err, r.alone.Yield(ctx, "reap", idle))
}

// pullForward corrects scores in the ready index that lie in the future, because a clock was fast. A
// busy worker would claim these sessions after all later ones.
func (r *Recovery) pullForward(ctx context.Context, now int64) error {
	ahead, err := r.rdb.ZRangeByScore(ctx, rediskey.Ready, &redis.ZRangeBy{
		Min: fmt.Sprintf("(%d", now+time.Second.Milliseconds()), Max: "+inf", Count: index.TimerBatch,
	}).Result()
	if err != nil || len(ahead) == 0 {
		return err
	}
	members := make([]redis.Z, len(ahead))
	for i, s := range ahead {
		members[i] = redis.Z{Score: float64(now), Member: s}
	}
	return r.rdb.ZAddArgs(ctx, rediskey.Ready, redis.ZAddArgs{XX: true, LT: true, Members: members}).Err()
}

func (r *Recovery) reap(ctx context.Context, now int64, sessions []string, scores map[string]string) (recovered int, err error) {
	named := r.ValidNames(slices.Clone(sessions))
	notReady, err := r.notWaiting(ctx, named)
	if err != nil {
		return 0, err
	}
	var unsorted error
	found := round{now: now, budget: r.burst(), later: map[string]string{}}
	found.checked = index.Without(sessions, named) // invalid names, which others have entered
	if waiting := index.Without(named, notReady); len(waiting) > 0 {
		ready, sorted, err := r.line(ctx)
		if err != nil {
			return 0, err
		}
		if sorted > 0 {
			unsorted = r.queue.Unsort(ctx, waiting)
		}
		again := max(r.cfg.Grace(), time.Duration(ready+sorted)*lineRecheck).Milliseconds()
		for _, s := range waiting {
			found.checkAgain(s, again)
		}
	}
	failed := r.checkAll(ctx, &found, notReady)
	w := index.Wakes(now, r.cfg.Grace(), found.ready...)
	w.Due = index.Wakes(0, 0, found.waiting...).Due
	err = index.InOrder(ctx, r.rdb,
		func(p redis.Pipeliner) {
			index.ListAgain(ctx, p, found.ready) // a plain producer may not have listed them
			index.StillActive(ctx, p, now, append(woken(found.ready), slices.Collect(maps.Keys(found.later))...)...)
			w.Owned(ctx, p)
		},
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
	if err == nil {
		// A session that was woken since the read has another score, and stays.
		_, err = index.RescoreUnchanged(ctx, r.rdb, rediskey.Owned, found.checked, scores, found.later)
	}
	return len(found.ready), errors.Join(failed, unsorted, err)
}

// notWaiting returns the sessions that do not wait for a free worker.
func (r *Recovery) notWaiting(ctx context.Context, sessions []string) ([]string, error) {
	rest, err := r.Absent(ctx, rediskey.Ready, sessions)
	if err != nil || len(rest) == 0 {
		return rest, err
	}
	return r.Absent(ctx, rediskey.Sorted, rest)
}

// line returns how many sessions wait for a free worker: in the ready index, and sorted.
func (r *Recovery) line(ctx context.Context) (ready, sorted int64, err error) {
	var inReady, inSorted *redis.IntCmd
	_, err = r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		inReady, inSorted = p.ZCard(ctx, rediskey.Ready), p.ZCard(ctx, rediskey.Sorted)
		return nil
	})
	return inReady.Val(), inSorted.Val(), err
}

// checkAll sorts sessions until the budget is used up. After a long outage most sessions are left
// for later runs.
func (r *Recovery) checkAll(ctx context.Context, found *round, sessions []string) (failed error) {
	looked := 0
	for batch := range slices.Chunk(sessions, reapBatch) {
		if found.left() == 0 {
			break
		}
		busy, err := r.WithTasks(ctx, batch, rediskey.Session.Sentinel, rediskey.Session.Pending, rediskey.Session.Active,
			rediskey.Session.Scheduled, rediskey.Session.Retry, rediskey.Session.Stopped)
		if err != nil {
			return errors.Join(failed, err)
		}
		found.checked = append(found.checked, index.Without(batch, busy)...)
		for len(busy) > 0 && found.left() > 0 {
			// As many as may still be recovered. The number doubles each time, since most may have an
			// owner.
			n := min(len(busy), max(found.left(), looked))
			for i, l := range protocol.Look(ctx, r.rdb, busy[:n]) {
				failed = errors.Join(failed, found.sort(busy[i], l))
			}
			looked += n
			busy = busy[n:]
		}
	}
	return failed
}

// round collects the changes that one run of Reap makes to the sessions that it has checked.
type round struct {
	now    int64 // ms
	budget int   // how many it may recover

	ready, waiting []index.WakeUp
	checked        []string          // these leave the owned index,
	later          map[string]string // except those that get this score instead
}

func (r *round) left() int { return r.budget - len(r.ready) }

func (r *round) checkAgain(session string, in int64) {
	r.checked = append(r.checked, session)
	r.later[session] = strconv.FormatInt(r.now+in, 10)
}

// brokenRecheck is how often Reap checks a session with a key of a wrong type. Each check logs a
// warning, and only an operator can repair it.
const brokenRecheck = 10 * time.Minute

func (r *round) sort(session string, l protocol.Looked) error {
	switch {
	case l.Err != nil:
		// A broken session must not stop the others. It is tried again later.
		after := timerCeiling
		if errors.Is(l.Err, protocol.ErrBroken) {
			after = brokenRecheck
		}
		r.checkAgain(session, after.Milliseconds())
		return fmt.Errorf("check session %s: %w", session, l.Err)
	case l.State == protocol.LookOwned:
		r.checkAgain(session, max(l.N, 1))
	case l.State == protocol.LookReady && r.left() == 0:
		// The next run checks it.
	case l.State == protocol.LookReady:
		r.ready = append(r.ready, index.WakeUp{Session: session}) // waking it renews its place in the owned index
	case l.State == protocol.LookWait:
		r.waiting = append(r.waiting, index.WakeUp{Session: session, At: l.N})
		r.checked = append(r.checked, session)
	default:
		r.checked = append(r.checked, session)
	}
	return nil
}
