package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/chaos/internal/world"
)

// servers are the faults of Redis and of clocks.
var servers = []Kind{
	{"Redis killed", 2, redisKilled},
	{"Redis restarted", 1, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return signal(server(w, rng).Process, syscall.SIGTERM), nil
	}},
	{"Redis stopped", 2, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return stopped(server(w, rng).Process, between(rng, 200*time.Millisecond, w.TTL+time.Second)), nil
	}},
	{"Redis paused", 2, onRedis(func(ctx context.Context, rdb *redis.Client, rng *rand.Rand) (string, error) {
		d := between(rng, 200*time.Millisecond, world.TTL)
		mode := [...]string{"ALL", "WRITE"}[rng.IntN(2)]
		err := rdb.Do(ctx, "CLIENT", "PAUSE", d.Milliseconds(), mode).Err()
		time.Sleep(d)
		return fmt.Sprintf("%s for %s", mode, d.Round(time.Millisecond)), err
	})},
	{"Redis full", 2, onRedis(full)},
	{"scripts flushed", 1, onRedis(func(ctx context.Context, rdb *redis.Client, _ *rand.Rand) (string, error) {
		return "", rdb.ScriptFlush(ctx).Err()
	})},
	{"clients killed", 2, onRedis(func(ctx context.Context, rdb *redis.Client, rng *rand.Rand) (string, error) {
		kind := [...]string{"NORMAL", "PUBSUB"}[rng.IntN(2)]
		return kind, rdb.Do(ctx, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes").Err()
	})},
	{"Redis' clock ahead", 2, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return clock(w, between(rng, time.Second, 10*time.Second))
	}},
	{"Redis' clock back", 2, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		return clock(w, -between(rng, time.Second, 5*time.Second))
	}},
	{"worker's clock moved", 2, func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		wk := w.Workers[rng.IntN(len(w.Workers))]
		by := between(rng, -time.Hour, time.Hour)
		return fmt.Sprintf("%s to %s", wk.Name, by.Round(time.Second)), wk.Clock.Move(by)
	}},
}

// network are the faults between one process and Redis.
var network = []Kind{
	{"cut before the request arrived", 2, poison(func(rng *rand.Rand) world.Toxic {
		return world.Toxic{Type: "limit_data", Upstream: true, Set: map[string]any{"bytes": rng.IntN(3000)}}
	}, 300*time.Millisecond, time.Second)},
	{"cut after the request arrived", 3, poison(func(rng *rand.Rand) world.Toxic {
		return world.Toxic{Type: "limit_data", Set: map[string]any{"bytes": rng.IntN(2000)}}
	}, 300*time.Millisecond, time.Second)},
	{"connections reset", 2, poison(func(*rand.Rand) world.Toxic {
		return world.Toxic{Type: "reset_peer", Set: map[string]any{"timeout": 0}}
	}, 200*time.Millisecond, 2*time.Second)},
	{"network slow", 2, poison(func(rng *rand.Rand) world.Toxic {
		return world.Toxic{Type: "latency", Set: map[string]any{"latency": 20 + rng.IntN(300), "jitter": 20}}
	}, time.Second, 4*time.Second)},
	{"process in a black hole", 2, poison(func(rng *rand.Rand) world.Toxic {
		return world.Toxic{Type: "timeout", Upstream: rng.IntN(2) == 0, Set: map[string]any{"timeout": 0}}
	}, time.Second, 2*world.TTL)},
}

func redisKilled(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
	return signal(server(w, rng).Process, syscall.SIGKILL), nil
}

// server is a server that accepts writes.
func server(w *world.World, rng *rand.Rand) *world.Server {
	if w.Topology == world.Cluster {
		return w.Servers()[rng.IntN(len(w.Servers()))]
	}
	return w.Primary()
}

func onRedis(f func(context.Context, *redis.Client, *rand.Rand) (string, error)) func(context.Context, *world.World, *rand.Rand) (string, error) {
	return func(ctx context.Context, w *world.World, rng *rand.Rand) (string, error) {
		rdb := server(w, rng).Client()
		defer rdb.Close()
		return f(ctx, rdb, rng)
	}
}

// full leaves Redis little memory for a while.
func full(ctx context.Context, rdb *redis.Client, rng *rand.Rand) (string, error) {
	info := rdb.InfoMap(ctx, "memory")
	used, err := strconv.ParseInt(info.Item("Memory", "used_memory"), 10, 64)
	if err != nil {
		return "", err
	}
	d := between(rng, 500*time.Millisecond, 4*time.Second)
	if err := rdb.ConfigSet(ctx, "maxmemory", strconv.FormatInt(used+int64(rng.IntN(64<<10)), 10)).Err(); err != nil {
		return "", err
	}
	time.Sleep(d)
	// A restart ends it, too: the setting is not in a file.
	return d.Round(time.Millisecond).String(), world.Await(ctx, 20*time.Second, func() error { return rdb.ConfigSet(ctx, "maxmemory", "0").Err() })
}

// clock moves Redis' clock, and leaves it there.
func clock(w *world.World, by time.Duration) (string, error) {
	now, err := w.RedisClock.Now()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("by %s to %s", by.Round(time.Millisecond), (now + by).Round(time.Millisecond)), w.RedisClock.Move(now + by)
}

// proxied is a process with a proxy, and that proxy. Of Sentinel's servers it is mostly the primary.
func proxied(w *world.World, rng *rand.Rand) (string, *world.Proxy) {
	n := rng.IntN(3)
	switch {
	case w.Topology == world.Sentinel && n == 0:
		s := w.Servers()[rng.IntN(len(w.Servers()))]
		return s.Name, s.Proxy
	case w.Topology == world.Sentinel:
		return w.Primary().Name, w.Primary().Proxy
	case n == 0:
		return w.Gateways[1].Name, w.Gateways[1].Proxy
	}
	wk := w.Workers[1+rng.IntN(len(w.Workers)-1)]
	return wk.Name, wk.Proxy
}

// poison makes a fault of a toxic on one process's proxy.
func poison(toxic func(*rand.Rand) world.Toxic, shortest, longest time.Duration) func(context.Context, *world.World, *rand.Rand) (string, error) {
	return func(_ context.Context, w *world.World, rng *rand.Rand) (string, error) {
		name, proxy := proxied(w, rng)
		d := between(rng, shortest, longest)
		cure, err := proxy.Poison(toxic(rng))
		if err != nil {
			return name, err
		}
		time.Sleep(d)
		cure()
		return fmt.Sprintf("%s for %s", name, d.Round(time.Millisecond)), nil
	}
}
