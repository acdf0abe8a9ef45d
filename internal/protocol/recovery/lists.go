package recovery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
)

// named are the entries of sessions in the order of their keys.
func named(sessions []string) []redis.Z {
	entries := make([]redis.Z, len(sessions))
	for i, s := range sessions {
		entries[i].Member = s
	}
	return entries
}

// marks are the keys, besides those of tasks, of a session that may need attention.
var marks = []func(rediskey.Session) string{
	rediskey.Session.Paused, rediskey.Session.Archived, rediskey.Session.Resume, rediskey.Session.Sentinel, rediskey.Session.Undelivered,
}

// reasons are keys of a session. One without any of them needs no attention.
var reasons = append(slices.Clone(marks), rediskey.Session.Active, rediskey.Session.Outbox)

// repairLists enters known sessions into the order of keys, and corrects the index of those that need
// attention: asynqmon pauses a session or archives messages without updating it.
//
// near are the sessions that may have one of the keys in reasons. seen counts those that wait.
func (r *Recovery) repairLists(ctx context.Context, now int64, sessions, near []string, seen *waits) error {
	if len(sessions) == 0 {
		return nil
	}
	var known, listed *redis.FloatSliceCmd
	_, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		known, listed = p.ZMScore(ctx, rediskey.Sessions, sessions...), p.ZMScore(ctx, rediskey.Attention, sessions...)
		return nil
	})
	if err != nil {
		return err
	}
	needy, err := r.needy(ctx, near, seen)
	if err != nil {
		return err
	}
	if err := r.unserved(ctx, now, sessions, listed.Val(), needy); err != nil {
		return err
	}
	var names, missing, over []string
	scores := map[string]string{}
	for i, s := range sessions {
		if known.Val()[i] > 0 {
			names = append(names, s)
		}
		switch there := listed.Val()[i] > 0; {
		case needy[s] && !there:
			missing = append(missing, s)
		case !needy[s] && there:
			over = append(over, s)
			scores[s] = fmt.Sprintf("%.0f", listed.Val()[i])
		}
	}
	if len(names) > 0 {
		if err := r.rdb.ZAddNX(ctx, rediskey.Names, named(names)...).Err(); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		members := named(missing)
		for i := range members {
			members[i].Score = float64(now)
		}
		if err := r.rdb.ZAddNX(ctx, rediskey.Attention, members...).Err(); err != nil {
			return err
		}
	}
	return index.RemoveUnchanged(ctx, r.rdb, rediskey.Attention, over, scores)
}

// unserved adds the listed sessions that wait for an agent that no living worker runs. A worker has listed
// them.
func (r *Recovery) unserved(ctx context.Context, now int64, sessions []string, listed []float64, needy map[string]bool) error {
	needs := map[string]*redis.StringCmd{}
	cmds, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, s := range sessions {
			if listed[i] > 0 && !needy[s] {
				needs[s] = p.HGet(ctx, rediskey.For(s).Record(), "needs")
			}
		}
		return nil
	})
	if err := redisconn.Failure(cmds, err); err != nil {
		return err
	}
	for s, field := range needs {
		needy[s] = protocol.NeededAgent(field.Val(), time.Time{}, time.UnixMilli(now)) != ""
	}
	return nil
}

// needy returns the sessions that are paused, suspended or broken, or have dead letters, failed deliveries or an open
// question.
func (r *Recovery) needy(ctx context.Context, sessions []string, seen *waits) (map[string]bool, error) {
	some, err := r.WithTasks(ctx, sessions, reasons...)
	if err != nil || len(some) == 0 {
		return map[string]bool{}, err
	}
	paused, dead, owned := make([]*redis.IntCmd, len(some)), make([]*redis.IntCmd, len(some)), make([]*redis.IntCmd, len(some))
	givenUp := make([]*redis.IntCmd, len(some))
	suspended, runs := make([]*redis.StringCmd, len(some)), make([]*redis.SliceCmd, len(some))
	cmds, err := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, s := range some {
			k := rediskey.For(s)
			paused[i], dead[i], owned[i] = p.Exists(ctx, k.Paused()), p.ZCard(ctx, k.Archived()), p.Exists(ctx, k.Sentinel())
			givenUp[i] = p.Exists(ctx, k.Undelivered())
			suspended[i] = p.HGet(ctx, k.Resume(), "suspended")
			runs[i] = p.HMGet(ctx, k.Run(), "fence", "question", "answered", "phase", "questions")
		}
		return nil
	})
	if err := redisconn.Failure(cmds, err); err != nil {
		return nil, err
	}
	failing, err := deliveries.ReadFailing(ctx, r.rdb, some)
	if err != nil {
		return nil, err
	}
	needy := map[string]bool{}
	for i, s := range some {
		needy[s] = paused[i].Val() > 0 || dead[i].Val() > 0 || givenUp[i].Val() > 0 || len(failing[i]) > 0 || suspended[i].Val() == "1" ||
			redisconn.WrongType(cmp.Or(dead[i].Err(), suspended[i].Err(), runs[i].Err()))
		seen.dead += dead[i].Val()
		var run [5]string
		for j, field := range runs[i].Val() {
			run[j], _ = field.(string)
		}
		parked := run[3] == "parked"
		if !parked && owned[i].Val() == 0 {
			continue
		}
		var asked time.Time
		if q := protocol.OpenQuestion(s, run[0], run[1], run[2], run[4]); q != nil {
			needy[s], asked = true, q.AskedAt
		}
		seen.add(parked, asked)
	}
	return needy, nil
}
