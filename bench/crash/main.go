// Command crash measures how long a message waits after its worker was killed with kill -9 in the
// middle of its turn: from the kill to the next worker's start of the same message. It starts its
// own redis-server. The worker that dies is a separate process: this binary, started again.
//
// A round kills at a random point of the time in which the owner renews its lease twice. Rounds run
// concurrently, each in its own database.
package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"time"

	"turnstile/bench/internal/lab"
)

// lanes is how many rounds run concurrently: one in each database of Redis.
const lanes = 8

var (
	rounds = flag.Int("rounds", 4, "kills in each of the 8 databases, for each TTL")
	long   = flag.Bool("long", false, "also with the default TTL of 15 s")
)

func main() {
	if lab.RunJob("crash", job.run) {
		return
	}
	lab.Main("crash", run)
}

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	ttls := []time.Duration{2 * time.Second, 5 * time.Second}
	if *long {
		ttls = append(ttls, 15*time.Second)
	}
	for _, ttl := range ttls {
		waits, err := kills(ctx, srv, ttl, lab.Quick(*rounds, 1))
		if err != nil {
			return err
		}
		lab.Progress("TTL %s: %d kills", ttl, len(waits))
		most := lab.Quantile(waits, 1)
		report.Reach(fmt.Sprintf("SENTINEL_TTL %s: kill -9 to the next start, longest", ttl), most <= ttl+time.Second,
			fmt.Sprintf("<= %s", ttl+time.Second), "%s (%d kills)", lab.Short(most), len(waits))
		report.Add("  median", "%s", lab.Short(lab.Median(waits)))
		report.Add("  shortest", "%s", lab.Short(lab.Quantile(waits, 0)))
	}
	return nil
}

func kills(ctx context.Context, srv *lab.Server, ttl time.Duration, rounds int) ([]time.Duration, error) {
	if err := srv.Clear(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var waits []time.Duration
	var wg sync.WaitGroup
	for db := range lanes {
		wg.Go(func() {
			for n := range rounds {
				wait, err := kill(ctx, srv, db, fmt.Sprintf("round:%d", n), ttl)
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				waits = append(waits, wait)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return waits, context.Cause(ctx)
}
