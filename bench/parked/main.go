// Command parked measures turns that wait for their user's decision without a worker, with a redis-server that it
// starts, with AOF. One worker with one slot parks them, one after the other. Then it is killed with kill -9, and so is
// Redis, which starts again from its file; another worker with one slot gets the decisions. Each must arrive once, and
// be the one that was given: if one is lost or arrives twice, the program fails.
//
// The workers are separate processes (this binary, started again), so that the senders' memory does not count. A parked
// turn has one message of five bytes, no history and no step but its question.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"turnstile/bench/internal/lab"
)

var (
	turns   = flag.Int("turns", 10000, "turns that are parked, and idle sessions whose sweep is compared")
	samples = flag.Int("samples", 1000, "decisions that are given one after the other, to an idle worker")
	file    = flag.String("appendfsync", string(lab.Always), "how Redis writes its file: always or everysec")
	sweeps  = flag.Int("sweeps", 5, "sweeps of each kind of session")
)

func main() {
	if lab.RunJob("parked", job.run) {
		return
	}
	lab.Main("parked", run)
}

func run(ctx context.Context, _ *lab.Server, report *lab.Report) error {
	srv, err := lab.StartServer(ctx, lab.Persistence(*file))
	if err != nil {
		return err
	}
	defer srv.Stop()
	n := lab.Quick(*turns, *turns/10)
	idle, err := idle(ctx, srv, n)
	if err != nil {
		return err
	}
	if err := srv.Clear(ctx); err != nil {
		return err
	}
	if err := park(ctx, srv, report, n); err != nil {
		return err
	}
	began := time.Now()
	if err := srv.Restart(ctx); err != nil {
		return err
	}
	report.Add("Redis' restart, with its file", "%s", lab.Short(time.Since(began)))
	waiting, err := lab.Sweeps(ctx, srv, n, *sweeps)
	if err != nil {
		return err
	}
	one, err := looks(ctx, srv, n)
	if err != nil {
		return err
	}
	compare(report, fmt.Sprintf("a sweep over %d parked sessions", n), waiting, idle, one)
	return decide(ctx, srv, report, n, lab.Quick(*samples, 100))
}
