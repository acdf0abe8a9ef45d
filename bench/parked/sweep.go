package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol"
	"turnstile/internal/recovery"
	"turnstile/internal/rediskey"
)

// sweepEvery is the workers' SweepInterval.
const sweepEvery = 15 * time.Second

// cost is that of a sweep, or of looks.
type cost struct {
	took              []time.Duration
	redis             []float64 // us for each session
	commands, scripts float64   // for each session
}

// idle measures the sweep of sessions that had one message each.
func idle(ctx context.Context, srv *lab.Server, n int) (c cost, err error) {
	rdb := srv.Client()
	defer rdb.Close()
	if err := (lab.Load{Sessions: n, Each: 1}).Fill(ctx, rdb, "chat", "hello"); err != nil {
		return c, err
	}
	if err := lab.RunAll(ctx, rdb, n, lab.Production(50)); err != nil {
		return c, err
	}
	lab.Progress("%d sessions are idle", n)
	return sweep(ctx, srv, n)
}

// sweep measures sweeps over n sessions, while no worker lives.
func sweep(ctx context.Context, srv *lab.Server, n int) (cost, error) {
	return measure(ctx, srv, n, func(rdb redis.UniversalClient) error {
		consumer, err := protocol.NewConsumer(rdb, protocol.Config{Worker: "bench"})
		if err == nil {
			err = rdb.Del(ctx, rediskey.Timer("sweep")).Err()
		}
		if err == nil {
			_, _, err = recovery.New(rdb, consumer).Sweep(ctx, sweepEvery)
		}
		return err
	})
}

// looks measures one look at each session.
func looks(ctx context.Context, srv *lab.Server, n int) (cost, error) {
	return measure(ctx, srv, n, func(rdb redis.UniversalClient) error {
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

func measure(ctx context.Context, srv *lab.Server, n int, do func(redis.UniversalClient) error) (c cost, err error) {
	for range *sweeps {
		rdb, admin := srv.Client(), srv.Client()
		defer rdb.Close()
		defer admin.Close()
		sent := lab.Count(rdb)
		if err := admin.ConfigResetStat(ctx).Err(); err != nil {
			return c, err
		}
		began := time.Now()
		if err := do(rdb); err != nil {
			return c, err
		}
		c.took = append(c.took, time.Since(began))
		commands := sent.Commands()
		us, err := lab.RedisTime(ctx, admin, commands)
		if err != nil {
			return c, err
		}
		c.redis = append(c.redis, us/float64(n))
		c.commands, c.scripts = float64(sent.Total())/float64(n), float64(commands["evalsha"])/float64(n)
	}
	return c, nil
}

// compare reports a sweep's cost beside that of as many idle sessions, and of one look at each.
func (c cost) compare(report *lab.Report, what string, idle, one cost) {
	report.Add(what, "%s (as many idle ones: %s)", lab.Short(lab.Median(c.took)), lab.Short(lab.Median(idle.took)))
	report.Reach("  scripts for each", c.scripts < 1.01, "1 look", "%.2f", c.scripts)
	report.Add("  commands for each", "%.2f (idle: %.2f)", c.commands, idle.commands)
	report.Add("  Redis time for each", "%.1f us (idle: %.2f us; one look alone: %.1f us)", lab.Median(c.redis), lab.Median(idle.redis), lab.Median(one.redis))
}
