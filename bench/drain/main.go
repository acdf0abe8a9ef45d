// Command drain compares Turnstile's worker with asynq's server in one run, on
// one redis-server that it starts: how fast they drain what is queued, and what
// that costs Redis.
//
// asynq runs raw: one queue, a handler that does nothing, no order, no lock, no
// result. Turnstile runs all that a turn does in production: sentinel, fence,
// transcript, events, ack with a kept result.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
)

// load is a shape of work: sessions with some messages each.
type load struct{ sessions, each int }

func (l load) String() string { return fmt.Sprintf("%d x %d", l.sessions, l.each) }

func main() {
	rounds := flag.Int("rounds", 5, "rounds of each load; medians are printed")
	loads := flag.String("loads", "1000x10,10000x1,10x1000", "sessions x messages, separated by commas")
	slots := flag.Int("slots", 50, "concurrency of both")
	wide := flag.Bool("wide", true, "also compare 1,000 with 100,000 sessions")
	profile := flag.String("cpuprofile", "", "write a CPU profile of Turnstile's rounds")
	flag.Parse()
	if err := run(context.Background(), *rounds, *slots, parse(*loads), *wide, *profile); err != nil {
		log.SetFlags(0)
		log.Fatal(err)
	}
}

func parse(s string) []load {
	var loads []load
	for _, word := range strings.Split(s, ",") {
		var l load
		if _, err := fmt.Sscanf(word, "%dx%d", &l.sessions, &l.each); err == nil {
			loads = append(loads, l)
		}
	}
	return loads
}

func run(ctx context.Context, rounds, slots int, loads []load, wide bool, profile string) error {
	srv, err := startRedis()
	if err != nil {
		return err
	}
	defer srv.stop()
	stop, err := startProfile(profile)
	if err != nil {
		return err
	}
	defer stop()

	fmt.Printf("%d rounds each, %d slots, medians; us/msg is Redis' own time for what was sent\n\n", rounds, slots)
	fmt.Printf("%-12s %12s %12s %7s   %10s %10s %7s   %8s %8s\n", "sessions", "asynq/s", "turnstile/s", "ratio",
		"asynq us", "turnst. us", "ratio", "a cmd", "t cmd")
	for _, l := range loads {
		var a, t []measure
		for range rounds {
			m, err := drainAsynq(ctx, srv, l.sessions*l.each, slots)
			if err != nil {
				return err
			}
			a = append(a, m)
			if m, err = drainTurnstile(ctx, srv, l, slots); err != nil {
				return err
			}
			t = append(t, m)
		}
		ma, mt := median(a), median(t)
		fmt.Printf("%-12s %12.0f %12.0f %7.2f   %10.1f %10.1f %7.2f   %8.2f %8.2f\n", l, ma.rate, mt.rate, mt.rate/ma.rate,
			ma.usec, mt.usec, mt.usec/ma.usec, ma.commands, mt.commands)
	}
	if !wide {
		return nil
	}
	fmt.Println()
	var ratios []float64
	for range max(1, rounds/2) {
		few, err := drainTurnstile(ctx, srv, load{1000, 1}, slots)
		if err != nil {
			return err
		}
		many, err := drainTurnstile(ctx, srv, load{100000, 1}, slots)
		if err != nil {
			return err
		}
		ratios = append(ratios, many.rate/few.rate)
		fmt.Printf("1,000 sessions %.0f/s, 100,000 sessions %.0f/s: ratio %.2f\n", few.rate, many.rate, many.rate/few.rate)
	}
	slices.Sort(ratios)
	fmt.Fprintf(os.Stdout, "median ratio %.2f\n", ratios[len(ratios)/2])
	return nil
}
