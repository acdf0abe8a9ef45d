package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// scaleMost bounds the sessions whose agents Scale reads: so many that wait, and twice as many that may have an owner.
const scaleMost = 1000

// Load is the work for an agent, or for all, and who can do it.
type Load struct {
	Slots   int   // of the workers that do not drain; a worker with several agents has its slots for each
	Running int64 // turns with a slot, a few seconds ago
	Waiting int64 // sessions that wait for a free slot
}

// Scale is the load, from which to choose the number of workers.
type Scale struct {
	Load
	Oldest time.Duration // how long the first of the waiting sessions has waited, by Redis' clock

	// Agents has the load by the agents' names: of the first 1,000 sessions that wait, and of up to 2,000 that have an
	// owner now. A session that has had no turn counts for the agent default: only a worker knows whose it will be.
	Agents map[string]Load
}

// Scale reads the load in a few round trips.
func (a *Client) Scale(ctx context.Context) (Scale, error) {
	s := Scale{Agents: map[string]Load{}}
	workers, err := a.Workers(ctx)
	if err != nil {
		return s, err
	}
	for _, w := range workers {
		s.Running += int64(w.Turns)
		if w.Draining {
			continue
		}
		s.Slots += w.Slots
		for _, name := range w.Agents {
			s.add(name, Load{Slots: w.Slots})
		}
	}
	var count, sortedCount *redis.IntCmd
	var ready, sorted *redis.ZSliceCmd
	var owned *redis.StringSliceCmd
	var now *redis.TimeCmd
	_, err = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		count, sortedCount, now = p.ZCard(ctx, rediskey.Ready), p.ZCard(ctx, rediskey.Sorted), p.Time(ctx)
		ready, sorted = p.ZRangeWithScores(ctx, rediskey.Ready, 0, scaleMost-1), p.ZRangeWithScores(ctx, rediskey.Sorted, 0, scaleMost-1)
		owned = p.ZRange(ctx, rediskey.Owned, 0, 2*scaleMost-1)
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("read the indexes: %w", err)
	}
	s.Waiting = count.Val() + sortedCount.Val()
	waits := map[string]bool{}
	for _, z := range append(ready.Val(), sorted.Val()...) {
		key, _ := z.Member.(string)
		waits[key] = true
		s.Oldest = max(s.Oldest, now.Val().Sub(time.UnixMilli(int64(z.Score))))
	}
	return s, s.byAgent(ctx, a.rdb, waits, owned.Val())
}

// byAgent adds sessions to the load of their agents: those that wait, and those of owned that have an owner.
func (s *Scale) byAgent(ctx context.Context, rdb redis.UniversalClient, waits map[string]bool, owned []string) error {
	agents, owners := map[string]*redis.StringCmd{}, map[string]*redis.IntCmd{}
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		read := func(key string) { agents[key] = p.HGet(ctx, rediskey.For(key).Record(), "agent") }
		for key := range waits {
			read(key)
		}
		for _, key := range owned {
			if !waits[key] {
				read(key)
				owners[key] = p.Exists(ctx, rediskey.For(key).Sentinel())
			}
		}
		return nil
	})
	var reply redis.Error
	if err != nil && !errors.As(err, &reply) { // a broken session counts for the agent default
		return fmt.Errorf("read the sessions' agents: %w", err)
	}
	for key, agent := range agents {
		switch name := cmp.Or(agent.Val(), "default"); {
		case waits[key]:
			s.add(name, Load{Waiting: 1})
		case owners[key].Val() == 1:
			s.add(name, Load{Running: 1})
		}
	}
	return nil
}

func (s *Scale) add(agent string, l Load) {
	sum := s.Agents[agent]
	s.Agents[agent] = Load{sum.Slots + l.Slots, sum.Running + l.Running, sum.Waiting + l.Waiting}
}
