// Command lockguard measures pkg/lockguard against github.com/bsm/redislock on a redis-server that
// it starts, and prints one table:
//
//	go run ./lockguard
//
// All figures are of one run. Where it compares the two libraries, they alternate in short rounds,
// and the table has the median.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"

	"turnstile/bench/internal/lab"
)

func main() {
	rounds := flag.Int("rounds", 25, "rounds for each library, uncontended")
	length := flag.Duration("round", 200*time.Millisecond, "length of a round")
	hold := flag.Duration("hold", time.Millisecond, "how long a contended lock is held")
	contended := flag.Duration("contended", 5*time.Second, "how long each library is contended for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *rounds, *length, *contended, *hold); err != nil {
		fmt.Fprintln(os.Stderr, "lockguard:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, rounds int, length, contended, hold time.Duration) error {
	s, err := lab.StartServer(ctx, lab.None)
	if err != nil {
		return err
	}
	defer s.Stop()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "figure\tlockguard\tredislock\tratio\treach")

	for _, goroutines := range []int{1, 16} {
		ours, theirs, err := compare(ctx, s, rounds, func(ctx context.Context, l locker) (float64, error) {
			return uncontended(ctx, l, goroutines, length)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "free locks, %d goroutine(s): acquire + release/s\t%.0f\t%.0f\t%.2f\t>= 0.9\n",
			goroutines, ours, theirs, ours/theirs)
	}

	a, err := measureContention(ctx, s, newOurs, contended, hold)
	if err != nil {
		return err
	}
	b, err := measureContention(ctx, s, newTheirs, contended, hold)
	if err != nil {
		return err
	}
	fmt.Fprintf(table, "one lock, %d goroutines, held %v: handoffs/s\t%.0f\t%.0f\t%.2f\t>= 600\n",
		contenders, hold, a.handoffs, b.handoffs, a.handoffs/b.handoffs)
	fmt.Fprintf(table, "  first come, first served: overtakings\t%d\t%d\t\t0\n", a.overtakings, b.overtakings)
	fmt.Fprintf(table, "  wait p50\t%v\t%v\t\t\n", round(a.p50), round(b.p50))
	fmt.Fprintf(table, "  wait p99\t%v\t%v\t\t\n", round(a.p99), round(b.p99))
	fmt.Fprintf(table, "  wait longest\t%v\t%v\t\t\n", round(a.max), round(b.max))
	fmt.Fprintf(table, "  wait p99 / p50\t%.2f\t%.2f\t\t<= 2\n", ratio(a.p99, a.p50), ratio(b.p99, b.p50))
	fmt.Fprintf(table, "  commands per acquire + release\t%.2f\t%.2f\t\t<= 3\n", a.commands, b.commands)
	return table.Flush()
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }
