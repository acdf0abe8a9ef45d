package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
)

// nothing is the memory of the worker that all idle sessions together may seem to take: the heap is
// measured in spans of pages, which are never all full.
const nothing = 1 << 20 // bytes

// idle measures sessions that had one message each.
func idle(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	p, err := start(ctx, srv, job{Slots: 50, Retention: time.Hour}, lab.Load{Sessions: 1000, Each: 1})
	if err != nil {
		return err
	}
	defer p.end()
	grew, err := p.grow(ctx, n)
	if err != nil {
		return err
	}
	more := grew.after.Live - grew.before.Live
	report.Reach(fmt.Sprintf("%d idle sessions: worker memory for all", n), more < nothing, "0 (< 1 MiB)",
		"%.2f MiB: %.1f bytes each", more/kib/kib, more/float64(n))
	goroutines := grew.after.Goroutines - grew.before.Goroutines
	report.Reach("  goroutines, for all", goroutines < n/1000, "0", "%d", goroutines)
	report.Reach("  Redis connections, for all", grew.connections < n/1000, "0", "%d", grew.connections)
	report.Add("  worker's resident memory: after a collection, at its peak", "%.0f MiB, %.0f MiB", grew.after.RSS/kib/kib, grew.after.Peak/kib/kib)
	report.Add("  Redis memory for each, results kept", "%.0f bytes", grew.redis/float64(n))
	lab.Progress("%d sessions are idle", n)
	return nil
}

// unkept measures the same without stored results.
func unkept(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	p, err := start(ctx, srv, job{Slots: 50}, lab.Load{Sessions: 1000, Each: 1})
	if err != nil {
		return err
	}
	defer p.end()
	grew, err := p.grow(ctx, n)
	if err != nil {
		return err
	}
	report.Add(fmt.Sprintf("%d idle sessions: Redis memory for each, no results kept", n), "%.0f bytes", grew.redis/float64(n))
	lab.Progress("%d sessions are idle, without results", n)
	events, err := p.purgeEvents(ctx)
	if err != nil {
		return err
	}
	report.Add("  after RETENTION, when their events are gone", "%.0f bytes", (grew.redis-events)/float64(n))
	return nil
}

// purgeEvents deletes the events of the sessions that grow has made, as if they were old, and returns how much memory that frees.
func (p *process) purgeEvents(ctx context.Context) (freed float64, err error) {
	sessions, err := p.rdb.ZRange(ctx, rediskey.Sessions, 0, -1).Result()
	if err != nil {
		return 0, err
	}
	sessions = slices.DeleteFunc(sessions, func(s string) bool { return !strings.HasPrefix(s, "idle:") })
	consumer, err := protocol.NewConsumer(p.rdb, protocol.Config{Worker: "bench", ArchiveTTL: time.Hour})
	if err != nil {
		return 0, err
	}
	before, err := lab.RedisMemory(ctx, p.rdb)
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(sessions, 1000) {
		for _, r := range consumer.Config().Purge(ctx, p.rdb, batch, 1, 0) {
			if r.Err != nil {
				return 0, r.Err
			}
		}
	}
	after, err := lab.RedisMemory(ctx, p.rdb)
	return before - after, err
}

// growth is the memory that sessions added.
type growth struct {
	before, after state
	connections   int
	redis         float64 // bytes
}

func (p *process) grow(ctx context.Context, n int) (g growth, err error) {
	if g, err = p.look(ctx); err != nil {
		return g, err
	}
	first := g
	if err := lab.InParts(n, func(from, n int) error {
		if err := (lab.Load{Sessions: n, Each: 1}).Fill(ctx, p.rdb, fmt.Sprintf("idle:%d", from), "hello"); err != nil {
			return err
		}
		return p.ended(ctx, from+n+int(first.after.Ended))
	}); err != nil {
		return g, err
	}
	if g, err = p.look(ctx); err != nil {
		return g, err
	}
	return growth{first.after, g.after, g.connections - first.connections, g.redis - first.redis}, nil
}

// look waits until the worker is idle, and measures.
func (p *process) look(ctx context.Context) (g growth, err error) {
	if err := p.quiet(ctx); err != nil {
		return g, err
	}
	// Maintenance removes queues without tasks from asynq's list, and checks each once more 10 s later.
	// Until then each takes memory for a note. Maintenance's queue stays listed.
	consumer, err := protocol.NewConsumer(p.rdb, protocol.Config{Worker: "bench"})
	if err != nil {
		return g, err
	}
	m := maintenance.New(p.rdb, consumer)
	if err := lab.Until(ctx, "the end of the list of queues", time.Second, func() (bool, error) {
		if _, err := m.Unregister(ctx); err != nil {
			return false, err
		}
		listed, err := p.rdb.SCard(ctx, rediskey.AllQueues).Result()
		if err != nil {
			return false, err
		}
		noted, err := p.rdb.Exists(ctx, rediskey.Unlisted).Result()
		return listed <= 1 && noted == 0, err
	}); err != nil {
		return g, err
	}
	if g.after, err = p.afterGC(); err != nil {
		return g, err
	}
	if g.connections, err = lab.Connections(ctx, p.rdb, workerName); err != nil {
		return g, err
	}
	g.redis, err = lab.RedisMemory(ctx, p.rdb)
	return g, err
}
