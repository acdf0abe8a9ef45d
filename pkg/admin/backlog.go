package admin

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

// Backlog counts the sessions in each index.
type Backlog struct {
	Ready int64 // sessions that wait for a free slot of a worker
	Due   int64 // sessions that wait for a time: of a delayed message, a retry, or collected messages
	Owned int64 // sessions that reap checks: those of Ready, those with an owner, and those with a dead owner

	// Outbox counts the sessions that store deliveries or may have unrecorded outcomes. Late is how
	// long the first of them has waited for a deliverer.
	Outbox int64
	Late   time.Duration

	// Destinations has the undelivered outcomes by destination, as the workers last counted them.
	// It is empty if the Redis user may not read the counts.
	Destinations map[string]DestinationBacklog

	// Parked is how many turns wait without a worker, for a decision or a retry, Questions how many questions are
	// open, Asked how long the oldest of them has waited for its decision, and DeadLetters how many dead letters all
	// sessions have. They are of the last sweep, and 0 if the Redis user may not read them.
	Parked      int64
	Questions   int64
	Asked       time.Duration
	DeadLetters int64

	// Oldest is how long the first session of Ready has waited, by Redis' clock. 0 if Ready is 0.
	Oldest time.Duration
}

// DestinationBacklog counts a destination's undelivered outcomes, over all sessions.
type DestinationBacklog struct {
	Count  int64         // outcomes of messages that have not ended, and deliveries that wait
	Oldest time.Duration // how long the oldest of these deliveries has waited, by Redis' clock
}

// Backlog reads the counts in two round trips.
func (a *Client) Backlog(ctx context.Context) (Backlog, error) {
	var ready, sorted, due, owned, outbox *redis.IntCmd
	var first, firstSorted, late *redis.ZSliceCmd
	var now *redis.TimeCmd
	var waits *redis.SliceCmd
	var owing deliveries.Owings
	all, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		ready, due, owned = p.ZCard(ctx, rediskey.Ready), p.ZCard(ctx, rediskey.Due), p.ZCard(ctx, rediskey.Owned)
		sorted, outbox = p.ZCard(ctx, rediskey.Sorted), p.ZCard(ctx, rediskey.Outbox)
		firstSorted = p.ZRangeWithScores(ctx, rediskey.Sorted, 0, 0)
		first, late = p.ZRangeWithScores(ctx, rediskey.Ready, 0, 0), p.ZRangeWithScores(ctx, rediskey.Outbox, 0, 0)
		now, waits = p.Time(ctx), p.HMGet(ctx, rediskey.Waiting, "parked", "questions", "asked", "dead")
		return nil
	})
	if denied := waits.Err(); redis.HasErrorPrefix(denied, "NOPERM") || redis.HasErrorPrefix(denied, "WRONGTYPE") {
		err = nil
		for _, cmd := range all[:len(all)-1] { // but the last one
			err = cmp.Or(err, cmd.Err())
		}
	}
	if err == nil {
		owing, err = deliveries.LastOwings(ctx, a.rdb)
		if redis.HasErrorPrefix(err, "NOPERM") { // a user that may read the indexes only
			err = nil
		}
	}
	if err != nil {
		return Backlog{}, fmt.Errorf("read the indexes: %w", err)
	}
	destinations := make(map[string]DestinationBacklog, len(owing))
	for name, o := range owing {
		d := DestinationBacklog{Count: o.Count}
		if o.Oldest > 0 {
			d.Oldest = max(0, now.Val().Sub(time.UnixMilli(o.Oldest)))
		}
		destinations[name] = d
	}
	since := func(first []redis.Z) (age time.Duration) {
		for _, z := range first {
			age = max(0, time.Duration(now.Val().UnixMilli()-int64(z.Score))*time.Millisecond)
		}
		return age
	}
	stored := script.HashFields(waits)
	var asked time.Duration
	if at := stored.Int("asked"); at > 0 {
		asked = max(0, now.Val().Sub(time.UnixMilli(at)))
	}
	return Backlog{
		Parked: stored.Int("parked"), Questions: stored.Int("questions"), Asked: asked, DeadLetters: stored.Int("dead"),
		Ready: ready.Val() + sorted.Val(), Due: due.Val(), Owned: owned.Val(), Oldest: max(since(first.Val()), since(firstSorted.Val())),
		Outbox: outbox.Val(), Late: since(late.Val()), Destinations: destinations,
	}, nil
}

// CountSessions returns how many sessions are known, and how many of them may be in StateAttention.
func (a *Client) CountSessions(ctx context.Context) (all, attention int64, err error) {
	var known, attend *redis.IntCmd
	_, err = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		known, attend = p.ZCard(ctx, rediskey.Sessions), p.ZCard(ctx, rediskey.Attention)
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("count sessions: %w", err)
	}
	return known.Val(), attend.Val(), nil
}
