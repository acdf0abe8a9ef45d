package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/bench/internal/lab"
	"turnstile/internal/protocol/rediskey"
)

// enough is the rate that one slot must do, in turns a second.
const enough = 100_000

// keys are the indexes, and then the lists of names that a Send adds the session to.
var keys = []string{rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions, rediskey.Names, rediskey.AllQueues}

// bounds measures what the keys that all sessions share cost their masters: the indexes on one, and then each key alone.
// The first master has all else.
func bounds(ctx context.Context, report *lab.Report, loads []lab.Load) error {
	alone := make([][]string, len(keys))
	for i, key := range keys {
		alone[i] = []string{key}
	}
	together, err := cluster(ctx, "indexes together", 1, keys[:4])
	defer together.stop()
	if err != nil {
		return err
	}
	each, err := cluster(ctx, "each key alone", 1, alone...)
	defer each.stop()
	if err != nil {
		return err
	}
	for _, l := range loads {
		l = lab.Quick(l, l.Tenth())
		samples, err := lab.Alternate(lab.Quick(*rounds, 1), []func() (measure, error){
			func() (measure, error) { return together.drain(ctx, l, *workers) },
			func() (measure, error) { return each.drain(ctx, l, *workers) },
		})
		if err != nil {
			return err
		}
		row := func(name string, m measure, node int) (turns float64) {
			turns = 1e6 / (m.sent[node] + m.drained[node])
			report.Add(fmt.Sprintf("%s: %s", l, name), "a message: %.2f us to send, %.2f us and %.2f commands to run; one core allows %.0f turns/s",
				m.sent[node], m.drained[node], m.commands[node], turns)
			return turns
		}
		row("all else", middle(samples[0]), 0)
		row("ready, due, owned and sessions", middle(samples[0]), 1)
		key, turns := "", 0.0
		for i, k := range keys {
			if t := row(k, middle(samples[1]), 1+i); key == "" || t < turns {
				key, turns = k, t
			}
		}
		report.Reach(fmt.Sprintf("%s: the busiest of these keys", l), turns >= enough, fmt.Sprintf(">= %d turns/s", enough), "%s, %.0f turns/s", key, turns)
	}
	for _, batch := range []int{1, 16} {
		if err := request(ctx, report, each.nodes[1], batch); err != nil {
			return err
		}
	}
	return nil
}

// request measures a busy master's cost of a ZADD that comes alone, as those of a Send do on a Cluster, and of one in a
// pipeline.
func request(ctx context.Context, report *lab.Report, master *lab.Server, batch int) error {
	rdb := master.Client()
	defer rdb.Close()
	before, err := lab.RedisProcessor(ctx, rdb)
	if err != nil {
		return err
	}
	n := lab.Quick(100_000, 10_000)
	err = lab.Parallel(n, func(i int) error {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for k := range batch {
				p.ZAdd(ctx, keys[0], redis.Z{Score: float64(i), Member: fmt.Sprint("bench:", (i*batch+k)%1000)})
			}
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	after, err := lab.RedisProcessor(ctx, rdb)
	us := (after - before).Seconds() * 1e6 / float64(n*batch)
	report.Add(fmt.Sprintf("16 senders, ZADDs of a pipeline: %d", batch), "%.2f us each; one core allows %.0f/s", us, 1e6/us)
	return err
}
