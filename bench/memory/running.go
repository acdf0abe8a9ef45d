package main

import (
	"context"
	"fmt"
	"time"

	"turnstile/bench/internal/lab"
)

const kib = 1024

// running measures turns that have begun and wait in the agent's Run.
func running(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	const ttl = 6 * time.Second
	p, err := start(ctx, srv, job{Slots: n, Retention: time.Hour, TTL: ttl, Heap: *heap}, lab.Load{Sessions: 1000, Each: 1})
	if err != nil {
		return err
	}
	defer p.end()
	before, err := p.afterGC()
	if err != nil {
		return err
	}
	if err := (lab.Load{Sessions: n, Each: 1}).Fill(ctx, p.rdb, "running", "sleep=1h hello"); err != nil {
		return err
	}
	if err := lab.Until(ctx, "the start of all turns", 50*time.Millisecond, func() (bool, error) {
		s, err := p.now()
		return s.Running == n, err
	}); err != nil {
		return err
	}
	time.Sleep(ttl) // each is renewed more than once
	after, err := p.afterGC()
	if err != nil {
		return err
	}
	each := (after.Live - before.Live) / float64(n)
	report.Reach(fmt.Sprintf("%d running echo turns: worker memory for each", n), each <= 20*kib, "<= 20 KiB", "%.1f KiB", each/kib)
	report.Add("  of it stacks", "%.1f KiB", (after.Stacks-before.Stacks)/float64(n)/kib)
	report.Add("  resident", "%.1f KiB", (after.RSS-before.RSS)/float64(n)/kib)
	report.Add("  goroutines", "%.2f", float64(after.Goroutines-before.Goroutines)/float64(n))
	connections, err := lab.Connections(ctx, p.rdb, workerName)
	report.Add("  Redis connections of the worker, in all", "%d", connections)
	lab.Progress("%d turns ran", n)
	return err
}
