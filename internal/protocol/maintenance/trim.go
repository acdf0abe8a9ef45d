package maintenance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
)

// trimTime is how long Trim archives messages of one batch of sessions. The next call continues.
const trimTime = 2 * time.Second

// Trim archives waiting messages above Config.LineMost, and returns how many. Turnstile's senders
// respect that cap, but other producers may not. Trim also counts the waiting messages of all
// sessions, for senders with Limits.AllQueues, and the outcomes owed to each destination. One worker
// does this at a time; the calls of the others return 0.
//
// It stops without an error when ctx ends.
func (m *Maintenance) Trim(ctx context.Context) (archived int, err error) {
	err = m.alone.Run(ctx, "trim", func(goOn func() error) error {
		archived, err = m.trimAll(ctx, goOn)
		return err
	})
	return archived, err
}

func (m *Maintenance) trimAll(ctx context.Context, goOn func() error) (archived int, err error) {
	now, err := m.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	var waiting int64
	owing := deliveries.Owings{}
	var failed error // errors of single sessions, which do not stop the others
	err = m.EverySession(ctx, func(sessions []string) error {
		owed, err := m.WithTasks(ctx, sessions, rediskey.Session.Owed, rediskey.Session.Outbox)
		if err != nil {
			return err
		}
		failed = errors.Join(failed, owing.Count(ctx, m.rdb, owed))
		sessions, err = m.NearTasks(ctx, sessions, rediskey.Session.Pending, rediskey.Session.Scheduled)
		if err != nil {
			return err
		}
		if len(sessions) == 0 {
			return goOn()
		}
		n, over, err := m.waiting(ctx, sessions)
		if err != nil {
			return err
		}
		trimmed, err := m.trim(ctx, over)
		archived += trimmed
		waiting += n - int64(trimmed)
		failed = errors.Join(failed, err)
		return goOn()
	})
	if err == nil {
		err = errors.Join(m.storeCount(ctx, waiting, now), owing.Store(ctx, m.rdb))
	}
	return archived, errors.Join(err, failed)
}

// storeCount stores how many messages wait, for senders. A key of a wrong type is replaced, because
// senders may write it, too.
func (m *Maintenance) storeCount(ctx context.Context, waiting int64, now time.Time) error {
	set := func() error {
		return m.rdb.HSet(ctx, rediskey.Waiting, "count", waiting, "at", now.UnixMilli()).Err()
	}
	err := set()
	if !redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	}
	if err := m.rdb.Del(ctx, rediskey.Waiting).Err(); err != nil {
		return err
	}
	return set()
}

// waiting counts the waiting messages of sessions. over are the sessions with more than
// Config.LineMost.
func (m *Maintenance) waiting(ctx context.Context, sessions []string) (n int64, over []string, err error) {
	line, delayed := make([]*redis.IntCmd, len(sessions)), make([]*redis.IntCmd, len(sessions))
	_, err = m.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, s := range sessions {
			k := rediskey.For(s)
			line[i], delayed[i] = p.LLen(ctx, k.Pending()), p.ZCard(ctx, k.Scheduled())
		}
		return nil
	})
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // the error of one session, which Trim reports
		return 0, nil, err
	}
	for i, s := range sessions {
		n += line[i].Val() + delayed[i].Val()
		if max(line[i].Val(), delayed[i].Val()) > m.cfg.LineMost() {
			over = append(over, s)
		}
	}
	return n, over, nil
}

// trim archives the messages above the cap in these sessions, for at most trimTime.
func (m *Maintenance) trim(ctx context.Context, sessions []string) (trimmed int, failed error) {
	for began := time.Now(); len(sessions) > 0 && time.Since(began) < trimTime && ctx.Err() == nil; {
		var again []string
		for i, r := range m.cfg.Trim(ctx, m.rdb, sessions) {
			if r.Err != nil {
				failed = errors.Join(failed, fmt.Errorf("archive messages over the line's cap of %s: %w", sessions[i], r.Err))
				continue
			}
			trimmed += r.N
			if r.More {
				again = append(again, sessions[i])
			}
		}
		sessions = again
	}
	return trimmed, failed
}
