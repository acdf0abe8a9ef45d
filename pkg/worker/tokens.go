package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
)

const (
	// tokensEvery is the shortest time between two writes of a worker's tokens.
	tokensEvery = time.Second

	// tokensTTL is how long a day's tokens are kept after the last ones.
	tokensTTL = 8 * 24 * time.Hour

	// tokensMost bounds the tokens of one report: an agent may report any number.
	tokensMost = 1 << 40

	// tokensPatience is how long the last write may take when the worker ends.
	tokensPatience = time.Second
)

// usedTokens adds the tokens that this worker's agents report to the day's count of all workers.
// Turns do not wait for writes. A killed worker loses the last second's.
type usedTokens struct {
	rdb  redis.UniversalClient
	life *lifecycle
	log  *slog.Logger
	used func(agent string, used session.Usage) // the observer's; nil: none

	mu    sync.Mutex
	count session.Usage // not written yet
	more  chan struct{} // count is not zero
}

func newUsedTokens(rdb redis.UniversalClient, life *lifecycle, log *slog.Logger, o Observer) *usedTokens {
	return &usedTokens{rdb: rdb, life: life, log: log, used: o.Used, more: make(chan struct{}, 1)}
}

// report counts an agent's report, however its turn ends: the tokens are used.
func (u *usedTokens) report(agent string, one session.Usage) {
	if u.used != nil {
		u.used(agent, one)
	}
	u.add(one)
}

func (u *usedTokens) add(one session.Usage) {
	bound := func(n int64) int64 { return min(max(n, 0), tokensMost) }
	one = session.Usage{InputTokens: bound(one.InputTokens), OutputTokens: bound(one.OutputTokens)}
	if one == (session.Usage{}) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count = u.count.Plus(one)
	select {
	case u.more <- struct{}{}:
	default:
	}
}

// run writes the tokens until the worker ends.
func (u *usedTokens) run() {
	for {
		select {
		case <-u.life.work.Done():
			u.last()
			return
		case <-u.more:
		}
		if err := u.write(u.life.work); redis.HasErrorPrefix(err, "NOPERM") {
			u.log.Warn("the day's tokens are not counted: give the worker's Redis user the rules of docs/security.md", "error", err)
			return
		}
		select {
		case <-u.life.work.Done():
		case <-time.After(tokensEvery):
		}
	}
}

// last writes the remaining tokens.
func (u *usedTokens) last() {
	ctx, cancel := context.WithTimeout(context.Background(), tokensPatience)
	defer cancel()
	_ = u.write(ctx)
}

// write adds the count to the day's. After an error it keeps the count for the next call. If the
// write succeeded nevertheless, some tokens count twice.
func (u *usedTokens) write(ctx context.Context) error {
	u.mu.Lock()
	count := u.count
	u.count = session.Usage{}
	u.mu.Unlock()
	if count == (session.Usage{}) {
		return nil
	}
	now, err := u.rdb.Time(ctx).Result()
	if err == nil {
		_, err = u.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			key := rediskey.Tokens(now)
			p.HIncrBy(ctx, key, "input", count.InputTokens)
			p.HIncrBy(ctx, key, "output", count.OutputTokens)
			p.Expire(ctx, key, tokensTTL)
			return nil
		})
	}
	if err != nil {
		u.add(count)
	}
	return err
}
