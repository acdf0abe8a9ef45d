package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
)

// monitor is asynqmon, with clients that count.
type monitor struct {
	*asynqmon.HTTPHandler
	opt *countedOpt
}

// countedOpt opens asynqmon's clients. It implements asynq.RedisConnOpt.
type countedOpt struct {
	srv      *lab.Server
	counters []*lab.Counter
	clients  []redis.UniversalClient
}

// MakeRedisClient implements asynq.RedisConnOpt.
func (o *countedOpt) MakeRedisClient() any {
	rdb := o.srv.Client()
	o.clients = append(o.clients, rdb)
	o.counters = append(o.counters, lab.Count(rdb))
	return rdb
}

func newMonitor(srv *lab.Server) monitor {
	opt := &countedOpt{srv: srv}
	return monitor{asynqmon.New(asynqmon.Options{RedisConnOpt: opt, ReadOnly: true}), opt}
}

// cost is the cost of one look at the page.
type cost struct {
	queues   int
	took     time.Duration
	commands int
	usec     float64 // of Redis' time
}

func (c cost) String() string {
	return fmt.Sprintf("%d queues, %s, %d commands, %s of Redis' time",
		c.queues, lab.Short(c.took), c.commands, lab.Short(time.Duration(c.usec*float64(time.Microsecond))))
}

// page requests the queues as the browser does, n times, and returns the medians.
func (m monitor) page(ctx context.Context, n int) (cost, error) {
	var c cost
	var took []time.Duration
	var usec []float64
	for range n {
		if err := m.opt.clients[0].ConfigResetStat(ctx).Err(); err != nil {
			return c, err
		}
		for _, counter := range m.opt.counters {
			counter.Reset()
		}
		asked := time.Now()
		answer := httptest.NewRecorder()
		m.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/queues", nil))
		took = append(took, time.Since(asked))
		if answer.Code != http.StatusOK {
			return c, fmt.Errorf("asynqmon: %d: %s", answer.Code, answer.Body)
		}
		var listed struct{ Queues []json.RawMessage }
		if err := json.Unmarshal(answer.Body.Bytes(), &listed); err != nil {
			return c, fmt.Errorf("asynqmon: %w", err)
		}
		sent := map[string]int{}
		c.queues, c.commands = len(listed.Queues), 0
		for _, counter := range m.opt.counters {
			for name, n := range counter.Commands() {
				sent[name] += n
				c.commands += n
			}
		}
		us, err := lab.RedisTime(ctx, m.opt.clients[0], sent)
		if err != nil {
			return c, err
		}
		usec = append(usec, us)
	}
	c.took, c.usec = lab.Median(took), lab.Median(usec)
	return c, nil
}
