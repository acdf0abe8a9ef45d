package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
)

// drainAsynq drains n tasks from one queue with a handler that does nothing.
func drainAsynq(ctx context.Context, srv *lab.Server, n, slots int) (measure, error) {
	fill := func(rdb redis.UniversalClient) error {
		client := asynq.NewClientFromRedisClient(rdb)
		return lab.Parallel(n, func(int) error {
			_, err := client.EnqueueContext(ctx, asynq.NewTask("bench", []byte(`{"v":1,"text":"hello"}`)))
			return err
		})
	}
	return timed(ctx, srv, n, fill, func(rdb redis.UniversalClient, each func()) (func(), error) {
		s := asynq.NewServerFromRedisClient(rdb, asynq.Config{Concurrency: slots, LogLevel: asynq.ErrorLevel})
		err := s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			each()
			return nil
		}))
		return s.Shutdown, err
	})
}

// drainTurnstile drains a load with one worker.
func drainTurnstile(ctx context.Context, srv *lab.Server, l lab.Load, slots int) (measure, error) {
	fill := func(rdb redis.UniversalClient) error {
		if *tenants != "" {
			if err := admin.NewClient(rdb).ApplyTenants(ctx, []byte(*tenants)); err != nil {
				return err
			}
		}
		return l.Fill(ctx, rdb, "bench", "hello")
	}
	return timed(ctx, srv, l.Messages(), fill, func(rdb redis.UniversalClient, each func()) (func(), error) {
		w, err := worker.New(rdb, lab.Echo{Agent: echo.New(), Each: each}, lab.Production(slots))
		if err != nil {
			return nil, err
		}
		return func() { lab.Stop(ctx, w) }, w.Start(ctx)
	})
}

// timed fills an empty server with n messages, then measures their drain through a new client.
func timed(ctx context.Context, srv *lab.Server, n int, fill func(redis.UniversalClient) error,
	drain func(rdb redis.UniversalClient, each func()) (stop func(), err error),
) (measure, error) {
	if err := srv.Clear(ctx); err != nil {
		return measure{}, err
	}
	admin, setup := srv.Client(), srv.Client()
	defer admin.Close()
	defer setup.Close()
	whole, err := startClock(ctx, admin)
	if err != nil {
		return measure{}, err
	}
	if err := admin.ConfigResetStat(ctx).Err(); err != nil {
		return measure{}, err
	}
	enqueued := lab.Count(setup)
	if err := fill(setup); err != nil {
		return measure{}, err
	}
	filled, filling, err := whole.read(ctx)
	if err != nil {
		return measure{}, err
	}
	if *detail {
		lab.Progress("enqueued in %s, %s of processor time", lab.Short(filled), lab.Short(filling))
		if err := tell(ctx, admin, enqueued.Commands(), float64(n)); err != nil {
			return measure{}, err
		}
	}
	if err := admin.ConfigResetStat(ctx).Err(); err != nil {
		return measure{}, err
	}
	rdb := srv.Client()
	defer rdb.Close()
	c := lab.Count(rdb)
	left := lab.NewCountdown(n)
	start := time.Now()
	stop, err := drain(rdb, left.One)
	if err != nil {
		return measure{}, err
	}
	defer stop()
	if err := left.Wait(ctx); err != nil {
		return measure{}, err
	}
	took := time.Since(start)
	sent := c.Commands()
	all, processor, err := whole.read(ctx)
	if err != nil {
		return measure{}, err
	}
	if *detail {
		lab.Progress("drained in %s, %s of processor time", lab.Short(all-filled), lab.Short(processor-filling))
		if err := tell(ctx, admin, sent, float64(n)); err != nil {
			return measure{}, err
		}
	}
	usec, err := lab.RedisTime(ctx, admin, sent)
	commands := 0
	for _, n := range sent {
		commands += n
	}
	per := float64(n)
	return measure{per / took.Seconds(), usec / per, float64(commands) / per, per / all.Seconds(), processor.Seconds() * 1e6 / per}, err
}

// tell prints the commands that were sent, and those that they called, per message.
func tell(ctx context.Context, admin redis.UniversalClient, sent map[string]int, messages float64) error {
	stats, err := lab.CommandStats(ctx, admin)
	if err != nil {
		return err
	}
	lab.Progress("%-12s %8s %8s %8s %8s", "per message", "sent", "called", "us", "us each")
	for _, name := range slices.SortedFunc(maps.Keys(stats), func(a, b string) int { return cmp.Compare(stats[b].Usec, stats[a].Usec) }) {
		s := stats[name]
		if s.Usec < messages/100 {
			break // the rest is zero
		}
		lab.Progress("%-12s %8.2f %8.2f %8.2f %8.2f", name, float64(sent[name])/messages, s.Calls/messages, s.Usec/messages, s.Usec/s.Calls)
	}
	return nil
}
