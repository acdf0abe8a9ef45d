package maintenance

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
)

// recheckAfter is how long after its removal an unlisted session is checked again.
const recheckAfter = 10 * time.Second

// listedFor are keys of a session. A session with any of them is on asynqmon's list.
var listedFor = []func(rediskey.Session) string{
	rediskey.Session.Pending, rediskey.Session.Active, rediskey.Session.Scheduled, rediskey.Session.Retry,
	rediskey.Session.Archived, rediskey.Session.Stopped, rediskey.Session.Paused,
}

// Unregister removes idle sessions from asynqmon's list: those that have only results and are not
// paused. asynqmon reads the listed queues one after the other, so a long list makes it slow. One
// worker does this at a time; the calls of the others return 0.
//
// A message may arrive while its session is removed. Unregister checks again after the removal, and
// lists such a session again. If the worker dies before that, or the sender is slow, a later call
// does it: each name is noted before its removal, and checked once more.
//
// Unregister stops without an error when ctx ends. The next call continues.
func (m *Maintenance) Unregister(ctx context.Context) (names int, err error) {
	err = m.alone.Run(ctx, "unregister", func(goOn func() error) error {
		names, err = m.unregisterAll(ctx, goOn)
		return err
	})
	return names, err
}

func (m *Maintenance) unregisterAll(ctx context.Context, goOn func() error) (names int, err error) {
	if err := m.listNoted(ctx); err != nil {
		return 0, err
	}
	err = m.EachQueue(ctx, func(sessions []string) error {
		for len(sessions) > 0 { // the embedded server returns all at once
			n := min(len(sessions), index.TimerBatch)
			gone, err := m.unregister(ctx, sessions[:n])
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

func (m *Maintenance) unregister(ctx context.Context, sessions []string) (names int, err error) {
	waiting, err := m.WithTasks(ctx, sessions, listedFor[0]) // apart, because in a long line most have this key
	if err != nil {
		return 0, err
	}
	sessions = index.Without(sessions, waiting)
	listed, err := m.WithTasks(ctx, sessions, listedFor...)
	if err != nil {
		return 0, err
	}
	idle := index.Without(sessions, listed)
	if len(idle) == 0 {
		return 0, nil
	}
	now, err := m.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	notes := make([]redis.Z, len(idle))
	for i, s := range idle {
		notes[i] = redis.Z{Score: float64(now.Add(recheckAfter).UnixMilli()), Member: s}
	}
	err = index.InOrder(ctx, m.rdb,
		func(p redis.Pipeliner) { p.ZAdd(ctx, rediskey.Unlisted, notes...) },
		func(p redis.Pipeliner) { p.SRem(ctx, rediskey.AllQueues, index.QueueNames(idle)...) })
	if err != nil {
		return 0, err
	}
	again, err := m.listBusy(ctx, idle)
	return len(idle) - again, err
}

// listNoted lists the noted sessions that are no longer idle.
func (m *Maintenance) listNoted(ctx context.Context) error {
	for {
		_, _, sessions, scores, err := index.ReadDue(ctx, m.rdb, rediskey.Unlisted, index.TimerBatch)
		if err != nil || len(sessions) == 0 {
			return err
		}
		if _, err := m.listBusy(ctx, sessions); err != nil {
			return err
		}
		err = index.RemoveUnchanged(ctx, m.rdb, rediskey.Unlisted, sessions, scores)
		if err := errors.Join(err, ctx.Err(), m.alone.Yield(ctx, "unregister", protocol.AloneFor)); err != nil {
			return err
		}
	}
}

// listBusy lists the sessions that are not idle.
func (m *Maintenance) listBusy(ctx context.Context, sessions []string) (n int, err error) {
	busy, err := m.WithTasks(ctx, sessions, listedFor...)
	if err != nil || len(busy) == 0 {
		return 0, err
	}
	return len(busy), m.rdb.SAdd(ctx, rediskey.AllQueues, index.QueueNames(busy)...).Err()
}
