package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// scaleMost is of how many waiting sessions, and of how many others with an owner, Scale reads the agent.
const scaleMost = 1000

// Load is the work for an agent, or for all, and who can do it.
type Load struct {
	Slots   int   // of the workers that do not drain; a worker with several agents has its slots for each
	Running int64 // turns with a slot, a few seconds ago
	Waiting int64 // sessions that wait for a free slot
}

// Scale decides how many workers there should be.
type Scale struct {
	Load
	Oldest time.Duration // how long the first of the waiting sessions has waited, by Redis' clock

	// Agents has the load by the agents' names. Its sessions are counted in the indexes, up to 1,000 that wait and 1,000
	// others. One that has had no turn counts for the agent default: only a worker knows whose it will be.
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
	var count *redis.IntCmd
	var ready *redis.ZSliceCmd
	var owned *redis.StringSliceCmd
	var now *redis.TimeCmd
	_, err = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		count, now = p.ZCard(ctx, rediskey.Ready), p.Time(ctx)
		ready = p.ZRangeWithScores(ctx, rediskey.Ready, 0, scaleMost-1)
		owned = p.ZRange(ctx, rediskey.Owned, 0, 2*scaleMost-1) // those of Ready among them
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("read the indexes: %w", err)
	}
	s.Waiting = count.Val()
	load := map[string]Load{}
	for i, z := range ready.Val() {
		key, _ := z.Member.(string)
		load[key] = Load{Waiting: 1}
		if i == 0 {
			s.Oldest = max(0, now.Val().Sub(time.UnixMilli(int64(z.Score))))
		}
	}
	for _, key := range owned.Val() {
		if _, waits := load[key]; !waits && len(load) < len(ready.Val())+scaleMost {
			load[key] = Load{Running: 1}
		}
	}
	return s, s.byAgent(ctx, a.rdb, load)
}

// byAgent adds the load of sessions to that of their agents.
func (s *Scale) byAgent(ctx context.Context, rdb redis.UniversalClient, load map[string]Load) error {
	names := map[string]*redis.StringCmd{}
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for key := range load {
			names[key] = p.HGet(ctx, rediskey.For(key).Record(), "agent")
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("read the sessions' agents: %w", err)
	}
	for key, name := range names {
		if err := name.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("read the agent of %s: %w", key, err)
		}
		s.add(cmp.Or(name.Val(), "default"), load[key])
	}
	return nil
}

func (s *Scale) add(agent string, l Load) {
	sum := s.Agents[agent]
	s.Agents[agent] = Load{sum.Slots + l.Slots, sum.Running + l.Running, sum.Waiting + l.Waiting}
}
