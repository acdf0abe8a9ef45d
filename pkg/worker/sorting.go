package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/tenants"
)

// poolLasts is for how long a worker that runs only some of its agents makes all workers sort sessions, after each look.
const poolLasts = time.Minute

// sorting has the table by which the worker sorts sessions. There is one while Redis has tenants, a worker that runs only
// some of its agents lives, or sorted sessions wait. Workers learn of a change within lookEvery.
type sorting struct {
	rdb  redis.UniversalClient
	pool bool   // this worker runs only some of its agents
	then func() // called when there is a table
	life *lifecycle
	log  *slog.Logger

	mu      sync.Mutex
	text    string
	table   *tenants.Table
	changed time.Time
}

// current returns the table, or nil.
func (s *sorting) current() *tenants.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table
}

// since returns when the worker got the table, or false if there is none.
func (s *sorting) since() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed, s.table != nil
}

// look reads the table.
func (s *sorting) look(ctx context.Context) error {
	var stored *redis.StringCmd
	var reasons *redis.IntCmd
	_, _ = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		if s.pool { // a full Redis refuses it
			p.Set(ctx, rediskey.Pools, 1, poolLasts)
		}
		stored, reasons = p.Get(ctx, rediskey.Tenants), p.Exists(ctx, rediskey.Tenants, rediskey.Pools, rediskey.Sorted)
		return nil
	})
	for _, err := range []error{stored.Err(), reasons.Err()} {
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := stored.Val()
	switch {
	case reasons.Val() == 0:
		s.text, s.table = "", nil
		return nil
	case s.table != nil && text == s.text:
		return nil
	case text == "":
		text = "{}"
	}
	table, err := tenants.Parse([]byte(text))
	if err != nil {
		s.log.Error("the tenants in Redis are wrong: the table before stays; apply one again with worker tenants apply", "error", err)
		if s.table != nil {
			return nil
		}
		table, _ = tenants.Parse([]byte("{}"))
	}
	s.text, s.table, s.changed = stored.Val(), table, time.Now()
	s.then()
	return nil
}

// run looks until the worker ends.
func (s *sorting) run() {
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	for {
		select {
		case <-s.life.work.Done():
			return
		case <-ticks.C:
		}
		if err := s.look(s.life.work); err != nil && s.life.work.Err() == nil {
			s.log.Warn("the tenants cannot be read", "error", err)
		}
	}
}
