package recovery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
)

// reapBatch is how many sessions Reap asks for their keys at once.
const reapBatch = 100

// burst is how many sessions may be recovered at once.
func (c *Recovery) burst() int { return int(math.Ceil(c.cfg.RecoveryRate * timerFloor.Seconds())) }

// Reap looks after the sessions that should have been looked after by now: it
// puts those that can be claimed into the ready index, at most RecoveryRate a
// second among all workers, and takes those with nothing left to run out of the
// owned index. It answers how many it recovered and how long to wait before the
// next call.
func (c *Recovery) Reap(ctx context.Context) (recovered int, pause time.Duration, err error) {
	if ok, err := c.alone.Take(ctx, "reap", 2*timerCeiling); !ok {
		return 0, timerFloor, err
	}
	began := time.Now()
	now, next, sessions, scores, err := protocol.ReadDue(ctx, c.rdb, rediskey.Owned, protocol.TimerBatch)
	if err == nil {
		recovered, err = c.reap(ctx, now, sessions, scores)
		err = errors.Join(err, c.pullForward(ctx, now))
	}
	// What was recovered is paid for with time in which nobody reaps. The run's own
	// is part of it.
	price := time.Duration(min(float64(recovered)/c.cfg.RecoveryRate, 3600) * float64(time.Second))
	hold := max(max(price, timerFloor)-time.Since(began), 0)
	hold = (hold + time.Millisecond - 1).Truncate(time.Millisecond)
	switch {
	case err != nil:
		pause = timerCeiling
	case len(sessions) > 0:
		pause = hold + time.Millisecond // there may be more; Redis keeps a key for its last ms, too
	default:
		pause = pauseUntil(now, next)
	}
	return recovered, pause, errors.Join(err, c.alone.Yield(ctx, "reap", hold))
}

// pullForward has those in the ready index wait from now on that came there by a clock
// that was ahead: a busy worker would take them behind all that come later.
func (c *Recovery) pullForward(ctx context.Context, now int64) error {
	ahead, err := c.rdb.ZRangeByScore(ctx, rediskey.Ready, &redis.ZRangeBy{
		Min: fmt.Sprintf("(%d", now+time.Second.Milliseconds()), Max: "+inf", Count: protocol.TimerBatch,
	}).Result()
	if err != nil || len(ahead) == 0 {
		return err
	}
	members := make([]redis.Z, len(ahead))
	for i, s := range ahead {
		members[i] = redis.Z{Score: float64(now), Member: s}
	}
	return c.rdb.ZAddArgs(ctx, rediskey.Ready, redis.ZAddArgs{XX: true, LT: true, Members: members}).Err()
}

func (c *Recovery) reap(ctx context.Context, now int64, sessions []string, scores map[string]string) (recovered int, err error) {
	named := c.Named(slices.Clone(sessions))
	unannounced, err := c.Absent(ctx, rediskey.Ready, named)
	if err != nil {
		return 0, err
	}
	r := round{now: now, grace: c.cfg.Grace().Milliseconds(), budget: c.burst(), later: map[string]string{}}
	r.looked = protocol.Without(sessions, named) // a worker of an older version has entered them
	for _, s := range protocol.Without(named, unannounced) {
		r.lookAgain(s, r.grace)
	}
	failed := c.lookInto(ctx, &r, unannounced)
	w := protocol.Wakes(now, c.cfg.Grace(), r.ready...)
	w.Wait = protocol.Wakes(0, 0, r.waiting...).Wait
	err = protocol.InOrder(ctx, c.rdb,
		func(p redis.Pipeliner) {
			protocol.ListAgain(ctx, p, r.ready) // it may be a plain producer's message that is found here
			w.Owned(ctx, p)
		},
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
	if err == nil {
		// One that was woken since it was read has another score, and stays as it is.
		err = protocol.RescoreUnchanged(ctx, c.rdb, rediskey.Owned, r.looked, scores, r.later)
	}
	return len(r.ready), errors.Join(failed, err)
}

// lookInto sorts the sessions until the budget is used up: after a great outage
// most of them are such as this run may not recover yet, and stay unlooked at.
func (c *Recovery) lookInto(ctx context.Context, r *round, sessions []string) (failed error) {
	looked := 0
	for batch := range slices.Chunk(sessions, reapBatch) {
		if r.left() == 0 {
			break
		}
		busy, err := c.WithTasks(ctx, batch, rediskey.Session.Sentinel, rediskey.Session.Pending, rediskey.Session.Active,
			rediskey.Session.Scheduled, rediskey.Session.Retry, rediskey.Session.Stopped)
		if err != nil {
			return errors.Join(failed, err)
		}
		r.looked = append(r.looked, protocol.Without(batch, busy)...)
		for len(busy) > 0 && r.left() > 0 {
			// As many as may still be recovered; if most are held, twice as many each time.
			n := min(len(busy), max(r.left(), looked))
			for i, l := range protocol.Look(ctx, c.rdb, busy[:n]) {
				failed = errors.Join(failed, r.sort(busy[i], l))
			}
			looked += n
			busy = busy[n:]
		}
	}
	return failed
}

// round is what one run of Reap is to do with the sessions that it looked at.
type round struct {
	now, grace int64 // ms
	budget     int   // how many it may recover

	ready, waiting []protocol.WakeUp
	looked         []string          // that are done with, and leave the owned index
	later          map[string]string // or get this score: looked at again then
}

func (r *round) left() int { return r.budget - len(r.ready) }

func (r *round) lookAgain(session string, in int64) {
	r.looked = append(r.looked, session)
	r.later[session] = strconv.FormatInt(r.now+in, 10)
}

func (r *round) sort(session string, l protocol.Looked) error {
	switch {
	case l.Err != nil:
		// One broken session must not stop the others. It stays and is seen again.
		r.lookAgain(session, timerCeiling.Milliseconds())
		return fmt.Errorf("look at %s: %w", session, l.Err)
	case l.What == protocol.LookHeld:
		r.lookAgain(session, max(l.N, 1))
	case l.What == protocol.LookReady && r.left() == 0:
		// Stays where it is for the next run.
	case l.What == protocol.LookReady:
		r.ready = append(r.ready, protocol.WakeUp{Session: session}) // with which it is looked at again
	case l.What == protocol.LookWait:
		r.waiting = append(r.waiting, protocol.WakeUp{Session: session, At: l.N})
		r.looked = append(r.looked, session)
	default:
		r.looked = append(r.looked, session)
	}
	return nil
}
