package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol/rediskey"
)

const mib = 1 << 20

// name is the i-th session's.
func name(i int) string { return fmt.Sprintf("chat:%d", i) }

// fill sends a message to each of some sessions.
func fill(ctx context.Context, rdb redis.UniversalClient, from, to int) error {
	client := turnstile.NewClient(rdb)
	return lab.Parallel(to-from, func(i int) error {
		_, err := client.Session(name(from+i)).Send(ctx, turnstile.Message{ID: "m", Text: "hello"})
		return err
	})
}

// start starts a worker.
func start(ctx context.Context, srv *lab.Server) (*lab.Child, error) {
	child, err := lab.Spawn(ctx, job{srv.Addr()})
	if err != nil {
		return nil, err
	}
	var ready string
	if err := child.Read(&ready); err != nil {
		child.End()
		return nil, err
	}
	return child, nil
}

// park has a worker park n turns, and kills it.
func park(ctx context.Context, srv *lab.Server, report *lab.Report, n int) error {
	rdb := srv.Client()
	defer rdb.Close()
	child, err := start(ctx, srv)
	if err != nil {
		return err
	}
	defer child.End()
	fill := func(from, to int) error {
		const most = 10_000 // in the queues: no wait is too long for lab.Until
		for ; from < to; from += most {
			if err := fill(ctx, rdb, from, min(from+most, to)); err != nil {
				return err
			}
			if err := lab.Until(ctx, "the park of all turns", 50*time.Millisecond, func() (bool, error) {
				var s state
				err := child.Call("now", &s)
				return s.Parked >= min(from+most, to), err
			}); err != nil {
				return err
			}
		}
		return nil
	}
	settled := func(parked int) (s state, redis float64, err error) {
		err = lab.Until(ctx, "the indexes of sessions", 200*time.Millisecond, func() (bool, error) {
			asking, err := rdb.ZCard(ctx, rediskey.Attention).Result()
			if err != nil {
				return false, err
			}
			owned, err := rdb.ZCard(ctx, rediskey.Owned).Result()
			return int(asking) == parked && owned == 0, err
		})
		if err == nil {
			err = child.Call("collect", &s)
		}
		if err == nil {
			redis, err = lab.RedisMemory(ctx, rdb)
		}
		return s, redis, err
	}
	warm := n / 10
	if err := fill(0, warm); err != nil {
		return err
	}
	before, few, err := settled(warm)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := fill(warm, n); err != nil {
		return err
	}
	took := time.Since(began)
	after, all, err := settled(n)
	if err != nil {
		return err
	}
	more, parked := after.Live-before.Live, float64(n-warm)
	lab.Progress("%d turns are parked", n)
	report.Add(fmt.Sprintf("%d turns, parked by a worker with one slot", n), "%.0f/s", parked/took.Seconds())
	report.Reach("  worker memory for all but the first tenth", more < mib, "0 (< 1 MiB)", "%.2f MiB: %.1f bytes each", more/mib, more/parked)
	report.Add("  Redis memory for each", "%.0f bytes", (all-few)/parked)
	return nil
}
