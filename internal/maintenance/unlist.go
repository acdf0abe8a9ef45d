package maintenance

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
)

// lookAgainAfter is when a name that was taken off the list is looked at once more.
const lookAgainAfter = 10 * time.Second

// toLookAt are the keys that a session has that is to be on asynqmon's list.
var toLookAt = []func(rediskey.Session) string{
	rediskey.Session.Pending, rediskey.Session.Active, rediskey.Session.Scheduled, rediskey.Session.Retry,
	rediskey.Session.Archived, rediskey.Session.Stopped, rediskey.Session.Paused,
}

// Unregister takes the names of sessions off the list that asynqmon reads that have
// nothing to look at: no message but results, and no pause. asynqmon asks Redis for
// every listed queue, one after the other. With Config.ListIdle only those leave
// that were forgotten. Only one worker does so at a time; the others' calls answer 0.
//
// A message may come while its session's name is being taken off. This call looks
// again behind the removal, and lists it. Should the worker die before that, or the
// sender be slow, a later call does: each name is noted before it is taken off, and
// looked at once more.
//
// When ctx ends it stops, without an error: what is left is the next call's.
func (c *Maintenance) Unregister(ctx context.Context) (names int, err error) {
	err = c.alone.Run(ctx, "unregister", func(goOn func() error) error {
		names, err = c.unregisterAll(ctx, goOn)
		return err
	})
	return names, err
}

func (c *Maintenance) unregisterAll(ctx context.Context, goOn func() error) (names int, err error) {
	if err := c.listLate(ctx); err != nil {
		return 0, err
	}
	err = c.EachQueue(ctx, func(sessions []string) error {
		for len(sessions) > 0 { // a server may answer all at once
			n := min(len(sessions), protocol.TimerBatch)
			gone, err := c.unregister(ctx, sessions[:n])
			names += gone
			if err := errors.Join(err, goOn()); err != nil {
				return err
			}
			sessions = sessions[n:]
		}
		return nil
	})
	return names, err
}

func (c *Maintenance) unregister(ctx context.Context, sessions []string) (names int, err error) {
	listed, err := c.WithTasks(ctx, sessions, toLookAt...)
	if err != nil {
		return 0, err
	}
	idle := protocol.Without(sessions, listed)
	if c.cfg.ListIdle {
		if idle, err = c.Absent(ctx, rediskey.Sessions, idle); err != nil {
			return 0, err
		}
	}
	if len(idle) == 0 {
		return 0, nil
	}
	now, err := c.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	notes := make([]redis.Z, len(idle))
	for i, s := range idle {
		notes[i] = redis.Z{Score: float64(now.Add(lookAgainAfter).UnixMilli()), Member: s}
	}
	err = protocol.InOrder(ctx, c.rdb,
		func(p redis.Pipeliner) { p.ZAdd(ctx, rediskey.Unlisted, notes...) },
		func(p redis.Pipeliner) { p.SRem(ctx, rediskey.AllQueues, protocol.QueueNames(idle)...) })
	if err != nil {
		return 0, err
	}
	again, err := c.listBusy(ctx, idle)
	return len(idle) - again, err
}

// listLate lists those again that have got a message since their names were taken off.
func (c *Maintenance) listLate(ctx context.Context) error {
	for {
		_, _, sessions, scores, err := protocol.ReadDue(ctx, c.rdb, rediskey.Unlisted, protocol.TimerBatch)
		if err != nil || len(sessions) == 0 {
			return err
		}
		if _, err := c.listBusy(ctx, sessions); err != nil {
			return err
		}
		err = protocol.RemoveUnchanged(ctx, c.rdb, rediskey.Unlisted, sessions, scores)
		if err := errors.Join(err, ctx.Err(), c.alone.Yield(ctx, "unregister", protocol.AloneFor)); err != nil {
			return err
		}
	}
}

// listBusy lists those of the sessions that have something to look at.
func (c *Maintenance) listBusy(ctx context.Context, sessions []string) (n int, err error) {
	busy, err := c.WithTasks(ctx, sessions, toLookAt...)
	if err != nil || len(busy) == 0 {
		return 0, err
	}
	return len(busy), c.rdb.SAdd(ctx, rediskey.AllQueues, protocol.QueueNames(busy)...).Err()
}
