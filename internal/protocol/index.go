package protocol

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// TimerBatch is how many members of an index one run reads.
const TimerBatch = 1000

// ClaimGrace is how long a session that was put into the ready index may go
// unclaimed before reap looks whether its claimer has died. A worker whose
// sentinels live shorter uses their TTL.
const ClaimGrace = 15 * time.Second

// WakeUp is a session that can be claimed at a time, ms by Redis' clock.
type WakeUp struct {
	Session string
	At      int64
}

// Wake tells the workers of sessions to claim. A session enters the owned index
// before the ready index, so that one that was popped by a worker that then died
// is found again. Its score there is of this wake-up, whatever it was: an earlier one
// may be what reap has just read, and takes out; a later one would hide the session.
func Wake(ctx context.Context, rdb redis.UniversalClient, now int64, grace time.Duration, ups ...WakeUp) error {
	w := Wakes(now, grace, ups...)
	return InOrder(ctx, rdb,
		func(p redis.Pipeliner) { w.Owned(ctx, p) },
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
}

// Announce makes a session known to workers and to asynqmon whose messages came without
// an enqueue.
func ListAndWake(ctx context.Context, rdb redis.UniversalClient, sessionKey string, now, at int64) error {
	w := Wakes(now, ClaimGrace, WakeUp{sessionKey, at})
	return InOrder(ctx, rdb,
		func(p redis.Pipeliner) {
			indexEntry{sessionKey, now}.add(ctx, p)
			w.Owned(ctx, p)
		},
		func(p redis.Pipeliner) { w.Ready(ctx, p) })
}

// WakeSet is what the indexes get of wakeUps, in two steps: owned, then ready.
type WakeSet struct{ owned, ready, Due []redis.Z }

// Wakes is what the indexes get of ups.
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

// Owned adds those that can be claimed to the owned index.
func (w WakeSet) Owned(ctx context.Context, p redis.Pipeliner) {
	if len(w.owned) > 0 {
		p.ZAdd(ctx, rediskey.Owned, w.owned...)
	}
}

// Ready adds them to the ready index, and those that have to wait to the due index.
func (w WakeSet) Ready(ctx context.Context, p redis.Pipeliner) {
	if len(w.ready) > 0 {
		p.ZAddNX(ctx, rediskey.Ready, w.ready...)
	}
	if len(w.Due) > 0 {
		p.ZAddLT(ctx, rediskey.Due, w.Due...)
	}
}

// QueueRecovery leaves late sessions to reap, which takes the one of the lowest
// score first. One that it was to look after later is moved forward.
func QueueRecovery(ctx context.Context, p redis.Pipeliner, late ...redis.Z) {
	if len(late) > 0 {
		p.ZAddLT(ctx, rediskey.Owned, late...)
	}
}

// lookAfter has reap look at holds in a TTL's time at the latest, up to timerBatch of
// them.
func (c *Consumer) indexOwned(claims []*Claim) *script.Call {
	sessions := make([]string, len(claims))
	for i, claim := range claims {
		sessions[i] = claim.session
	}
	return &script.Call{
		Script: lookAfterMove.Script, Keys: []string{rediskey.Owned},
		Args: lookAfterMove.args("ttl", c.cfg.SentinelTTL.Milliseconds(), "sessions", sessions),
	}
}

// ReadDue reads the members of an index whose time has come.
func ReadDue(ctx context.Context, rdb script.Client, index string, batch int) (now, next int64, members []string, scores map[string]string, err error) {
	r, err := indexDueMove.run(ctx, rdb, []string{index}, indexDueMove.args("batch", batch))
	if err != nil {
		return 0, 0, nil, nil, err
	}
	list := r.list("due")
	scores = make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		members = append(members, list.Text(i))
		scores[list.Text(i)] = list.Text(i + 1)
	}
	return r.int("now"), r.int("next"), members, scores, nil
}

// RemoveUnchanged takes members out of an index, except those whose score is not
// the one that was read.
func RemoveUnchanged(ctx context.Context, rdb script.Client, index string, members []string, scores map[string]string) error {
	return RescoreUnchanged(ctx, rdb, index, members, scores, nil)
}

// RescoreUnchanged is removeUnchanged that gives a member the score that it has in to,
// if it has one.
func RescoreUnchanged(ctx context.Context, rdb script.Client, index string, members []string, scores, to map[string]string) error {
	for batch := range slices.Chunk(members, TimerBatch) {
		call := Rescore(index, batch, scores, to)
		if _, err := call.Script.Run(ctx, rdb, call.Keys, call.Args...); err != nil {
			return err
		}
	}
	return nil
}

// Rescore gives members of an index the scores in to, or takes those out that have none
// there, unless their score is not the one in scores any more. lua/rescore.lua.
func Rescore(index string, members []string, scores, to map[string]string) *script.Call {
	were, next := make([]string, len(members)), make([]string, len(members))
	for i, m := range members {
		were[i], next[i] = scores[m], to[m]
	}
	return &script.Call{
		Script: rescoreMove.Script, Keys: []string{index},
		Args: rescoreMove.args("members", members, "were", were, "to", next),
	}
}

// ListAgain lists sessions that are to be claimed.
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

// QueueNames are the names of the sessions' queues.
func QueueNames(sessions []string) []any {
	names := make([]any, len(sessions))
	for i, s := range sessions {
		names[i] = rediskey.Queue(s)
	}
	return names
}
