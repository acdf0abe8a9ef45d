// Command memory measures a worker's memory: for a running turn, for an idle session, and during
// the recovery of orphans and of overdue sessions. It also measures the memory of an idle session
// in Redis. It starts its own redis-server, and runs each worker in a separate process (this
// binary, started again), so that the sender's memory does not count.
package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"turnstile/bench/internal/lab"
)

var (
	turns    = flag.Int("turns", 5000, "turns that run at once")
	sessions = flag.Int("sessions", 100000, "sessions that are idle")
	orphans  = flag.Int("orphans", 10000, "sessions of the worker that dies, and those that are overdue")
	rate     = flag.Float64("rate", 250, "RECOVERY_RATE, sessions/s; the worker's default is 50")
	only     = flag.String("only", "running,idle,unkept,orphans,due", "the parts to run, separated by commas")
	heap     = flag.String("heapprofile", "", "write the worker's heap profile while the turns run")
)

func main() {
	if lab.RunJob("memory", job.run) {
		return
	}
	lab.Main("memory", run)
}

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	parts := []struct {
		name    string
		measure func(context.Context, *lab.Server, *lab.Report, int) error
		n       int
	}{
		{"running", running, lab.Quick(*turns, *turns/5)},
		{"idle", idle, lab.Quick(*sessions, *sessions/20)},
		{"unkept", unkept, lab.Quick(*sessions/10, *sessions/50)},
		{"orphans", orphaned, lab.Quick(*orphans, *orphans/10)},
		{"due", overdue, lab.Quick(*orphans, *orphans/10)},
	}
	for _, part := range parts {
		if !slices.Contains(strings.Split(*only, ","), part.name) {
			continue
		}
		if err := part.measure(ctx, srv, report, part.n); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}
