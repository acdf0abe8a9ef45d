package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
)

const purgeBatch = 200

// eventsLeast is how long the events of an idle session are kept, whatever Retention is: without results, whoever
// waits for a message reads its end there.
const eventsLeast = 5 * time.Minute

// Purge deletes results older than their retention, dead letters older than ArchiveTTL, and the events of idle
// sessions whose last one is older than Retention. asynq's janitor does this only for queues that an asynq.Server
// serves, and knows no events.
func (m *Maintenance) Purge(ctx context.Context) (deleted int, err error) {
	now, err := m.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	var failed error // errors of single sessions, which do not stop the others
	visit := func(sessions []string) error {
		sessions, err := m.WithTasks(ctx, sessions, rediskey.Session.Completed, rediskey.Session.Archived, rediskey.Session.Events)
		if err == nil {
			sessions, err = m.withOld(ctx, sessions, now)
		}
		if err != nil {
			return err
		}
		for len(sessions) > 0 {
			var again []string
			for i, r := range m.cfg.Purge(ctx, m.rdb, sessions, purgeBatch, m.quiet()) {
				if r.Err != nil {
					failed = errors.Join(failed, fmt.Errorf("purge %s: %w", sessions[i], r.Err))
					continue
				}
				deleted += r.N
				if r.More {
					again = append(again, sessions[i])
				}
			}
			sessions = again
		}
		return nil
	}
	err = m.EverySession(ctx, visit)
	return deleted, errors.Join(err, failed)
}

// quiet is for how long a session must have had no event before its events are deleted.
func (m *Maintenance) quiet() time.Duration { return max(m.cfg.Retention, eventsLeast) }

// withOld returns the sessions that may have something to purge. Most have nothing, and a count is
// cheaper than a script. Of the events it reads only when the last turn ended: reading the last one costs its length.
func (m *Maintenance) withOld(ctx context.Context, sessions []string, now time.Time) ([]string, error) {
	completed, archived := make([]*redis.IntCmd, len(sessions)), make([]*redis.IntCmd, len(sessions))
	events, runs := make([]*redis.IntCmd, len(sessions)), make([]*redis.SliceCmd, len(sessions))
	_, err := m.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, s := range sessions {
			k := rediskey.For(s)
			completed[i] = p.ZCount(ctx, k.Completed(), "-inf", fmt.Sprint(now.Unix()))
			archived[i] = p.ZCount(ctx, k.Archived(), "-inf", fmt.Sprint(now.Add(-m.cfg.ArchiveTTL).Unix()))
			events[i] = p.Exists(ctx, k.Events())
			runs[i] = p.HMGet(ctx, k.Run(), "phase", "ended_at")
		}
		return nil
	})
	if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // the error of one session, which its script reports
		return nil, err
	}
	var old []string
	for i, s := range sessions {
		var run struct {
			Phase   string `redis:"phase"`
			EndedAt int64  `redis:"ended_at"`
		}
		unread := runs[i].Scan(&run) // the script reports why
		quiet := events[i].Val() > 0 && (run.Phase == "idle" || run.Phase == "") && now.Sub(time.UnixMilli(run.EndedAt)) > m.quiet()
		if quiet || completed[i].Val()+archived[i].Val() > 0 || completed[i].Err() != nil || archived[i].Err() != nil || unread != nil {
			old = append(old, s)
		}
	}
	return old, nil
}

// Forget deletes the records of sessions that have no tasks and were not used for SessionTTL.
func (m *Maintenance) Forget(ctx context.Context) (forgotten int, err error) {
	now, err := m.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	var failed error
	for broken := 0; ; { // broken sessions stay at the front of the index
		old, err := m.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: rediskey.Sessions, ByScore: true, Start: "-inf", Stop: now.Add(-m.cfg.SessionTTL).UnixMilli(),
			Offset: int64(broken), Count: index.TimerBatch,
		}).Result()
		if err != nil {
			return forgotten, errors.Join(failed, err)
		}
		n, bad, err := m.forgetAll(ctx, old, now)
		forgotten += n
		broken += len(bad)
		failed = errors.Join(append(bad, failed)...)
		if err != nil || len(old) < index.TimerBatch {
			return forgotten, errors.Join(failed, err)
		}
	}
}

// forgetAll forgets the unused sessions of a batch, and moves the others away from the front of the
// index. bad has an error for each broken one.
func (m *Maintenance) forgetAll(ctx context.Context, old []redis.Z, now time.Time) (forgotten int, bad []error, err error) {
	sessions, scores := make([]string, len(old)), make(map[string]string, len(old))
	for i, z := range old {
		sessions[i], _ = z.Member.(string)
		scores[sessions[i]] = fmt.Sprintf("%.0f", z.Score)
	}
	var gone []string
	var kept []redis.Z
	gone = append(gone, index.Without(sessions, m.ValidNames(slices.Clone(sessions)))...) // invalid names only leave the index
	for _, s := range index.Without(sessions, gone) {
		ok, err := m.forget(ctx, s, now)
		switch {
		case err != nil && !redisconn.Refused(err):
			return 0, bad, err
		case err != nil:
			bad = append(bad, fmt.Errorf("forget %s: %w", s, err))
		case ok:
			gone = append(gone, s)
		default:
			kept = append(kept, redis.Z{Score: float64(now.UnixMilli()), Member: s})
		}
	}
	if len(kept) > 0 {
		if err := m.rdb.ZAddXX(ctx, rediskey.Sessions, kept...).Err(); err != nil {
			return 0, bad, err
		}
	}
	// A session that is used at this moment leaves the order of keys until its next use or sweep.
	for _, index := range []string{rediskey.Names, rediskey.Attention} {
		if len(gone) == 0 {
			break
		}
		if err := m.rdb.ZRem(ctx, index, anyOf(gone)...).Err(); err != nil {
			return 0, bad, err
		}
	}
	return len(gone), bad, index.RemoveUnchanged(ctx, m.rdb, rediskey.Sessions, gone, scores)
}

func anyOf(names []string) []any {
	list := make([]any, len(names))
	for i, name := range names {
		list[i] = name
	}
	return list
}

func (m *Maintenance) forget(ctx context.Context, session string, now time.Time) (gone bool, err error) {
	k := rediskey.For(session)
	id, err := m.rdb.HGet(ctx, k.Record(), "session_id").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return false, err
	}
	return protocol.Forget(ctx, m.rdb, session, id, now, m.cfg.SessionTTL)
}
