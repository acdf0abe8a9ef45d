// Command latency measures the wait of a message when nothing blocks it, on a redis-server that it
// starts: from the call of Send to the agent's start on an idle worker, and from a turn's end to
// the start of the session's next.
//
// Sender and worker are in this one process and share its clock, but not a Redis client.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"turnstile/bench/internal/lab"
)

var (
	samples = flag.Int("samples", 2000, "samples of each figure")
	rest    = flag.Duration("rest", 2*time.Millisecond, "how long the worker is idle before each sample")
)

func main() { lab.Main("latency", run) }

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	n := lab.Quick(*samples, 300)
	trip, err := roundTrips(ctx, srv, n)
	if err != nil {
		return err
	}
	report.Add("one round trip (PING), the yardstick", "%s", lab.Spread(trip))

	for _, immediate := range []bool{true, false} {
		for _, fresh := range []bool{true, false} {
			s := idle{immediate: immediate, fresh: fresh, samples: n, rest: *rest}
			if err := s.measure(ctx, srv); err != nil {
				return err
			}
			lab.Progress("idle, %s", s.String())
			starts(report, "idle, "+s.String()+": Send to the agent's start", s.starts, time.Millisecond, 5*time.Millisecond)
			report.Add("  of it Send itself", "%s", lab.Spread(s.sends))
		}
	}
	for _, q := range []queued{
		{immediate: true, load: lab.Load{Sessions: 1, Each: n}},
		{immediate: false, load: lab.Load{Sessions: n / 10, Each: 10}}, // after 10 turns a session yields to others
	} {
		if err := q.measure(ctx, srv); err != nil {
			return err
		}
		lab.Progress("queued, %s", q.String())
		starts(report, "queued, "+q.String()+": a turn's end to the next one's start", q.gaps, 500*time.Microsecond, 0)
	}
	return nil
}

func starts(report *lab.Report, figure string, d []time.Duration, p50, p99 time.Duration) {
	reach, met := fmt.Sprintf("p50 <= %s", p50), lab.Median(d) <= p50
	if p99 > 0 {
		reach += fmt.Sprintf(", p99 <= %s", p99)
		met = met && lab.Quantile(d, 0.99) <= p99
	}
	report.Reach(figure, met, reach, "%s", lab.Spread(d))
}

func roundTrips(ctx context.Context, srv *lab.Server, n int) ([]time.Duration, error) {
	rdb := srv.Client()
	defer rdb.Close()
	all := make([]time.Duration, n)
	for i := range all {
		time.Sleep(*rest)
		sent := time.Now()
		if err := rdb.Ping(ctx).Err(); err != nil {
			return nil, err
		}
		all[i] = time.Since(sent)
	}
	return all, nil
}
