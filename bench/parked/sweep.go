package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol"
)

// idle measures the sweep of sessions that had one message each.
func idle(ctx context.Context, srv *lab.Server, n int) (c lab.Cost, err error) {
	rdb := srv.Client()
	defer rdb.Close()
	if err := (lab.Load{Sessions: n, Each: 1}).Fill(ctx, rdb, "chat", "hello"); err != nil {
		return c, err
	}
	if err := lab.RunAll(ctx, rdb, n, lab.Production(50)); err != nil {
		return c, err
	}
	lab.Progress("%d sessions are idle", n)
	return lab.Sweeps(ctx, srv, n, *sweeps)
}

// looks measures one look at each session.
func looks(ctx context.Context, srv *lab.Server, n int) (lab.Cost, error) {
	return lab.MeasureCost(ctx, srv, n, *sweeps, func(rdb redis.UniversalClient) error {
		const batch = 500
		for from := 0; from < n; from += batch {
			var sessions []string
			for i := from; i < min(from+batch, n); i++ {
				sessions = append(sessions, name(i))
			}
			for _, l := range protocol.Look(ctx, rdb, sessions) {
				if l.State != protocol.LookWait {
					return fmt.Errorf("a parked session is %s: %w", l.State, l.Err)
				}
			}
		}
		return nil
	})
}

// compare reports a sweep's cost c beside that of as many idle sessions, and of one look at each.
func compare(report *lab.Report, what string, c, idle, one lab.Cost) {
	report.Add(what, "%s (as many idle ones: %s)", lab.Short(lab.Median(c.Took)), lab.Short(lab.Median(idle.Took)))
	report.Reach("  scripts for each", c.Scripts < 1.01, "1 look", "%.2f", c.Scripts)
	report.Add("  commands for each", "%.2f (idle: %.2f)", c.Commands, idle.Commands)
	report.Add("  Redis time for each", "%.1f us (idle: %.2f us; one look alone: %.1f us)", lab.Median(c.Redis), lab.Median(idle.Redis), lab.Median(one.Redis))
}
