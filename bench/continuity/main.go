// Command continuity measures how a session continues after an interruption: a worker's death with
// follow-ups in the queue, a drain that interrupts turns, a /stop. It starts its own redis-server.
//
// The workers that end, and those that follow them, are separate processes: this binary, started
// again. If a measured time begins with one party and ends with another, both are in this one
// process and share its clock, but not a Redis client.
package main

import (
	"context"
	"flag"
	"time"

	"turnstile/bench/internal/lab"
)

var (
	rounds   = flag.Int("rounds", 3, "workers that are ended with each signal")
	sessions = flag.Int("sessions", 10, "sessions of such a worker, each with follow-ups in the queue")
	ttl      = flag.Duration("ttl", 5*time.Second, "SENTINEL_TTL of the workers that are ended")
	drains   = flag.Int("drains", 10, "drains to be timed")
	turns    = flag.Int("turns", 100, "turns that run when a drain's time is over")
	stops    = flag.Int("stops", 200, "samples of /stop")
)

func main() {
	if lab.RunJob("continuity", job.run) {
		return
	}
	lab.Main("continuity", run)
}

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	if err := followups(ctx, srv, report); err != nil {
		return err
	}
	if err := handovers(ctx, srv, report, lab.Quick(*drains, 2)); err != nil {
		return err
	}
	for _, beside := range []int{0, *turns} {
		if err := stopping(ctx, srv, report, beside, lab.Quick(*stops, 50)); err != nil {
			return err
		}
	}
	return nil
}
