package index

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// TimerBatch is the most members of an index that one script reads or writes.
const TimerBatch = 1000

// ClaimGrace is how long a session from the ready index may go unclaimed before reap checks whether
// its claimer has died. A worker with a shorter SentinelTTL uses that.
const ClaimGrace = 15 * time.Second

// WakeUp is a session, and when it can be claimed, in ms by Redis' clock.
type WakeUp struct {
	Session string
	At      int64
}

// Wake wakes sessions: it enters them into the ready index, or into the due index if their time is
// later.
//
// A session enters the owned index first, so that reap finds it if a worker pops it and dies. Wake
// replaces the session's score there: reap may be about to remove an earlier one, and a later one
// would hide the session.
func Wake(ctx context.Context, rdb redis.UniversalClient, now int64, grace time.Duration, ups ...WakeUp) error {
	w := Wakes(now, grace, ups...)
	return InOrder(ctx, rdb,
		func(p redis.Pipeliner) { w.Owned(ctx, p) },
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
}

// ListAndWake wakes a session after messages were added without an enqueue, and lists it for the
// sweep and for asynqmon.
func ListAndWake(ctx context.Context, rdb redis.UniversalClient, sessionKey string, now, at int64) error {
	w := Wakes(now, ClaimGrace, WakeUp{sessionKey, at})
	return InOrder(ctx, rdb,
		func(p redis.Pipeliner) {
			List(ctx, p, now, sessionKey)
			w.Owned(ctx, p)
		},
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
}

// List lists sessions for the sweep, and their queues for asynqmon.
func List(ctx context.Context, p redis.Pipeliner, now int64, sessions ...string) {
	queues := make([]any, len(sessions))
	for i, s := range sessions {
		queues[i] = rediskey.Queue(s)
	}
	p.SAdd(ctx, rediskey.AllQueues, queues...)
	Know(ctx, p, now, sessions...)
}

// Know enters sessions into the list of sessions, or sets the time of their last activity there.
func Know(ctx context.Context, p redis.Pipeliner, now int64, sessions ...string) {
	known, names := make([]redis.Z, len(sessions)), make([]redis.Z, len(sessions))
	for i, s := range sessions {
		known[i], names[i] = redis.Z{Score: float64(now), Member: s}, redis.Z{Member: s}
	}
	p.ZAdd(ctx, rediskey.Sessions, known...)
	p.ZAddNX(ctx, rediskey.Names, names...)
}

// StillActive sets the time of the last activity of known sessions: they were due, or still wait or
// run.
func StillActive(ctx context.Context, p redis.Pipeliner, now int64, sessions ...string) {
	if len(sessions) == 0 {
		return
	}
	active := make([]redis.Z, len(sessions))
	for i, s := range sessions {
		active[i] = redis.Z{Score: float64(now), Member: s}
	}
	p.ZAddArgs(ctx, rediskey.Sessions, redis.ZAddArgs{XX: true, GT: true, Members: active})
}

// WakeSet are the entries that wake-ups add to the owned, ready and due indexes.
type WakeSet struct{ owned, ready, Due []redis.Z }

// Wakes returns the entries of wake-ups. now is Redis' clock in ms.
func Wakes(now int64, grace time.Duration, ups ...WakeUp) (w WakeSet) {
	for _, u := range ups {
		if u.At > now {
			w.Due = append(w.Due, redis.Z{Score: float64(u.At), Member: u.Session})
			continue
		}
		w.owned = append(w.owned, redis.Z{Score: float64(now + grace.Milliseconds()), Member: u.Session})
		w.ready = append(w.ready, redis.Z{Score: float64(now), Member: u.Session})
	}
	return w
}

// Owned adds the sessions that can be claimed to the owned index.
func (w WakeSet) Owned(ctx context.Context, p redis.Pipeliner) {
	if len(w.owned) > 0 {
		p.ZAdd(ctx, rediskey.Owned, w.owned...)
	}
}

// Ready adds them to the ready index, and the sessions that wait for a time to the due index.
func (w WakeSet) Ready(ctx context.Context, p redis.Pipeliner) {
	if len(w.ready) > 0 {
		p.ZAddNX(ctx, rediskey.Ready, w.ready...)
	}
	if len(w.Due) > 0 {
		p.ZAddLT(ctx, rediskey.Due, w.Due...)
	}
}

// QueueRecovery leaves overdue sessions to reap, which takes the lowest score first. It never makes
// reap check a session later.
func QueueRecovery(ctx context.Context, p redis.Pipeliner, overdue ...redis.Z) {
	if len(overdue) > 0 {
		p.ZAddLT(ctx, rediskey.Owned, overdue...)
	}
}

// ReadDue returns the due members of an index, with their scores as Redis formats them. now is
// Redis' clock, next the score of the first member that is not due, both in ms.
func ReadDue(ctx context.Context, rdb script.Client, index string, batch int) (now, next int64, members []string, scores map[string]string, err error) {
	r, err := scripts.IndexDue.Run(ctx, rdb, []string{index}, scripts.IndexDueArgs{Batch: int64(batch)})
	if err != nil {
		return 0, 0, nil, nil, err
	}
	scores = make(map[string]string, len(r.Due)/2)
	for i := 0; i+1 < len(r.Due); i += 2 {
		members = append(members, r.Due.Text(i))
		scores[r.Due.Text(i)] = r.Due.Text(i + 1)
	}
	return r.Now, r.Next, members, scores, nil
}

// RemoveUnchanged removes the members of an index that still have the score that was read.
func RemoveUnchanged(ctx context.Context, rdb script.Client, index string, members []string, scores map[string]string) error {
	_, err := RescoreUnchanged(ctx, rdb, index, members, scores, nil)
	return err
}

// RescoreUnchanged is RemoveUnchanged, but a member with a score in to gets that score instead. It returns
// how many members it has changed.
func RescoreUnchanged(ctx context.Context, rdb script.Client, index string, members []string, scores, to map[string]string) (int, error) {
	changed := 0
	for batch := range slices.Chunk(members, TimerBatch) {
		call := Rescore(index, batch, scores, to)
		call.Run(ctx, rdb)
		if call.Err != nil {
			return changed, call.Err
		}
		changed += int(scripts.Rescore.Result(call).Changed)
	}
	return changed, nil
}

// Rescore gives members of an index their scores in to, and removes those without one. It changes
// only members that still have their score in scores. lua/rescore.lua.
func Rescore(index string, members []string, scores, to map[string]string) *script.Call {
	were, next := make([]string, len(members)), make([]string, len(members))
	for i, m := range members {
		were[i], next[i] = scores[m], to[m]
	}
	return scripts.Rescore.Call([]string{index}, scripts.RescoreArgs{Members: members, Were: were, To: next})
}

// ListAgain puts the queues of sessions back on asynq's list.
func ListAgain(ctx context.Context, p redis.Pipeliner, ups []WakeUp) {
	if len(ups) == 0 {
		return
	}
	names := make([]any, len(ups))
	for i, u := range ups {
		names[i] = rediskey.Queue(u.Session)
	}
	p.SAdd(ctx, rediskey.AllQueues, names...)
}

// QueueNames returns the names of the sessions' queues.
func QueueNames(sessions []string) []any {
	names := make([]any, len(sessions))
	for i, s := range sessions {
		names[i] = rediskey.Queue(s)
	}
	return names
}

// InOrder sends the commands of each step before those of the next. A single Redis gets all steps
// in one pipeline. On a Cluster the parts of a pipeline go to their nodes at once, so InOrder waits
// for each step, and returns at the first error.
func InOrder(ctx context.Context, rdb redis.Cmdable, steps ...func(redis.Pipeliner)) error {
	_, single := rdb.(*redis.Client)
	for i := range steps {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			if !single {
				steps[i](p)
				return nil
			}
			for _, step := range steps {
				step(p)
			}
			return nil
		})
		if err != nil || single {
			return err
		}
	}
	return nil
}

// NeedAttention enters sessions into the index of those that a person may have to look at: with an
// open question or dead letters, paused or suspended, or with an agent that no worker runs. now is Redis' clock in ms.
//
// The index may have too many sessions, so readers check each. A failed call does no harm: the
// sweep adds missing sessions, and removes others unless their time has changed.
func NeedAttention(ctx context.Context, rdb redis.Cmdable, now int64, sessions ...string) error {
	members := make([]redis.Z, len(sessions))
	for i, s := range sessions {
		members[i] = redis.Z{Score: float64(now), Member: s}
	}
	return rdb.ZAdd(ctx, rediskey.Attention, members...).Err()
}
