package protocol

import (
	"context"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/combine"
	"turnstile/internal/rediskey"
)

// claimGrace is how long a session that was put into the ready index may go
// unclaimed before reap looks whether its claimer has died. A worker whose
// sentinels live shorter uses their TTL.
const claimGrace = 15 * time.Second

// wakeUp is a session that can be claimed at a time, ms by Redis' clock.
type wakeUp struct {
	session string
	at      int64
}

// wake tells the workers of sessions to claim. A session enters the owned index
// before the ready index, so that one that was popped by a worker that then died
// is found again. Its score there is of this wake-up, whatever it was: an earlier one
// may be what reap has just read, and takes out; a later one would hide the session.
func wake(ctx context.Context, rdb redis.UniversalClient, now int64, grace time.Duration, ups ...wakeUp) error {
	w := wakes(now, grace, ups...)
	return inOrder(ctx, rdb,
		func(p redis.Pipeliner) { w.owned(ctx, p) },
		func(p redis.Pipeliner) { w.ready(ctx, p) })
}

// woken is what the indexes get of wakeUps, in two steps: owned, then ready.
type woken struct{ claim, announce, wait []redis.Z }

func wakes(now int64, grace time.Duration, ups ...wakeUp) (w woken) {
	for _, u := range ups {
		if u.at > now {
			w.wait = append(w.wait, redis.Z{Score: float64(u.at), Member: u.session})
			continue
		}
		w.claim = append(w.claim, redis.Z{Score: float64(now + grace.Milliseconds()), Member: u.session})
		w.announce = append(w.announce, redis.Z{Score: float64(now), Member: u.session})
	}
	return w
}

func (w woken) owned(ctx context.Context, p redis.Pipeliner) {
	if len(w.claim) > 0 {
		p.ZAdd(ctx, rediskey.Owned, w.claim...)
	}
}

func (w woken) ready(ctx context.Context, p redis.Pipeliner) {
	if len(w.announce) > 0 {
		p.ZAddNX(ctx, rediskey.Ready, w.announce...)
	}
	if len(w.wait) > 0 {
		p.ZAddLT(ctx, rediskey.Due, w.wait...)
	}
}

// queueRecovery leaves late sessions to reap, which takes the one of the lowest
// score first. One that it was to look after later is moved forward.
func queueRecovery(ctx context.Context, p redis.Pipeliner, late ...redis.Z) {
	if len(late) > 0 {
		p.ZAddLT(ctx, rediskey.Owned, late...)
	}
}

// lookAfter has reap look at holds in a TTL's time at the latest, up to timerBatch of
// them.
func (c *Consumer) lookAfter(holds []*Hold) *combine.Call {
	args := make([]any, len(holds))
	for i, h := range holds {
		args[i] = h.session
	}
	return &combine.Call{
		Script: lookAfterScript(), Shared: []any{c.cfg.SentinelTTL.Milliseconds()}, Keys: []string{rediskey.Owned}, Args: args,
	}
}

// dueMembers reads the members of an index whose time has come.
func dueMembers(ctx context.Context, rdb redis.Scripter, index string, batch int) (now, next int64, members []string, scores map[string]string, err error) {
	reply, err := run(ctx, rdb, indexDueScript(), []string{index}, batch)
	if err != nil {
		return 0, 0, nil, nil, err
	}
	list := reply.list(2)
	scores = make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		members = append(members, list.str(i))
		scores[list.str(i)] = list.str(i + 1)
	}
	return reply.int(0), reply.int(1), members, scores, nil
}

// removeUnchanged takes members out of an index, except those whose score is not
// the one that was read.
func removeUnchanged(ctx context.Context, rdb redis.Scripter, index string, members []string, scores map[string]string) error {
	return rescoreUnchanged(ctx, rdb, index, members, scores, nil)
}

// rescoreUnchanged is removeUnchanged that gives a member the score that it has in to,
// if it has one.
func rescoreUnchanged(ctx context.Context, rdb redis.Scripter, index string, members []string, scores, to map[string]string) error {
	for batch := range slices.Chunk(members, timerBatch) {
		if err := rescoreScript().Run(ctx, rdb, []string{index}, rescoreArgs(batch, scores, to)...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// rescoreArgs are the ARGV of lua/rescore.lua.
func rescoreArgs(members []string, scores, to map[string]string) []any {
	n := len(members)
	args := make([]any, 3*n)
	for i, m := range members {
		args[i], args[n+i], args[2*n+i] = m, scores[m], to[m]
	}
	return args
}
