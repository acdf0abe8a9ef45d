// Command drain compares Turnstile's worker with asynq's server in one run, on one redis-server
// that it starts: how fast they drain the queued messages, and the cost for Redis.
//
// asynq runs raw: one queue, a handler that does nothing, no order, no lock, no result. Turnstile
// does everything that a turn does in production: sentinel, fence, transcript, events,
// acknowledgement with a stored result.
package main

import (
	"context"
	"flag"
	"fmt"

	"turnstile/bench/internal/lab"
)

var (
	rounds  = flag.Int("rounds", 5, "rounds of each load; medians are printed")
	loads   = flag.String("loads", "1000x10,10000x1,10x1000", "sessions x messages, separated by commas")
	slots   = flag.Int("slots", 50, "concurrency of both")
	durable = flag.String("durable", "1000x10,10000x1", "the same with an append-only file, everysec and always")
	wide    = flag.Int("wide", 100000, "compare 1,000 sessions with so many; 0: do not")
	least   = flag.Bool("floor", false, "measure the bare writes of a turn, too: what the figures could be at best")
	detail  = flag.Bool("detail", false, "tell what each round sent, and what its scripts called")
	tenants = flag.String("tenants", "", "a table of tenants as JSON, by which Turnstile's worker sorts sessions")
	profile = flag.String("cpuprofile", "", "write a CPU profile of all rounds")
)

// reach is the target of a load, as a multiple of asynq's rate. A session of one message pays for a
// claim and a release by itself.
func reach(l lab.Load) float64 {
	if l.Each == 1 {
		return 0.6
	}
	return 1
}

// wholeShape is a shape of load, with Redis' persistence.
type wholeShape struct {
	each int
	p    lab.Persistence
}

// wholeGoals are the targets for the cost of messages from Send to their end, as multiples of
// asynq's.
var wholeGoals = map[wholeShape]struct{ rate, processor float64 }{
	{10, lab.None}:   {0.95, 1.1},
	{10, lab.Always}: {2, 0.7},
	{1, lab.None}:    {0.6, 1.8},
	{1, lab.Always}:  {1.3, 1.2},
}

func main() { lab.Main("drain", run) }

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	all, err := lab.ParseLoads(*loads)
	if err != nil {
		return err
	}
	stored, err := lab.ParseLoads(*durable)
	if err != nil {
		return err
	}
	stop, err := startProfile(*profile)
	if err != nil {
		return err
	}
	defer stop()
	for _, l := range all {
		if err := compare(ctx, srv, report, lab.Quick(l, l.Tenth())); err != nil {
			return err
		}
	}
	for _, p := range []lab.Persistence{lab.Everysec, lab.Always} {
		if err := persisted(ctx, report, p, stored); err != nil {
			return err
		}
	}
	if *wide == 0 {
		return nil
	}
	return widths(ctx, srv, report)
}

// compare drains a load with both, alternately.
func compare(ctx context.Context, srv *lab.Server, report *lab.Report, l lab.Load) error {
	ways := both(ctx, srv, l)
	if *least {
		s, err := takeSample(ctx, srv)
		if err != nil {
			return err
		}
		ways = append(ways, func() (measure, error) { return drainFloor(ctx, srv, l, *slots, s) })
	}
	medians, err := alternate(ways)
	if err != nil {
		return err
	}
	a, t := medians[0], medians[1]
	lab.Progress("%s drained", l)
	name := l.String()
	report.Reach(name+": messages/s", t.rate >= reach(l)*a.rate, fmt.Sprintf(">= %.1f x asynq", reach(l)),
		"%.0f, asynq %.0f: %.2f x", t.rate, a.rate, t.rate/a.rate)
	report.Reach(name+": Redis time per message", t.usec <= 1.2*a.usec, "<= 1.2 x asynq",
		"%.1f us, asynq %.1f us: %.2f x", t.usec, a.usec, t.usec/a.usec)
	if l.Each == 10 {
		report.Reach(name+": commands per message", t.commands <= 2.5, "<= 2.5", "%.2f, asynq %.2f", t.commands, a.commands)
	} else {
		report.Add(name+": commands per message", "%.2f, asynq %.2f", t.commands, a.commands)
	}
	wholes(report, name+", without persistence", l, lab.None, a, t)
	if *least {
		f := medians[2]
		report.Add(name+": Redis time of a message's bare writes", "%.1f us: %.2f x", f.usec, f.usec/a.usec)
	}
	return nil
}

// both drain a load with asynq and with Turnstile.
func both(ctx context.Context, srv *lab.Server, l lab.Load) []func() (measure, error) {
	return []func() (measure, error){
		func() (measure, error) { return drainAsynq(ctx, srv, l.Messages(), *slots) },
		func() (measure, error) { return drainTurnstile(ctx, srv, l, *slots) },
	}
}

// alternate measures each way in turn, and returns the median of each.
func alternate(ways []func() (measure, error)) ([]measure, error) {
	all, err := lab.Alternate(lab.Quick(*rounds, 1), ways)
	if err != nil {
		return nil, err
	}
	medians := make([]measure, len(ways))
	for i := range all {
		medians[i] = median(all[i])
	}
	return medians, nil
}

// persisted compares both on a redis-server with an append-only file.
func persisted(ctx context.Context, report *lab.Report, p lab.Persistence, loads []lab.Load) error {
	srv, err := lab.StartServer(ctx, p)
	if err != nil {
		return err
	}
	defer srv.Stop()
	for _, l := range loads {
		l = lab.Quick(l, l.Tenth())
		medians, err := alternate(both(ctx, srv, l))
		if err != nil {
			return err
		}
		lab.Progress("%s drained, appendfsync %s", l, p)
		wholes(report, fmt.Sprintf("%s, appendfsync %s", l, p), l, p, medians[0], medians[1])
	}
	return nil
}

// wholes reports the cost of messages from the first one's Send to the last one's end.
func wholes(report *lab.Report, name string, l lab.Load, p lab.Persistence, asynq, ours measure) {
	rate, processor := ours.whole/asynq.whole, ours.processor/asynq.processor
	goal, ok := wholeGoals[wholeShape{l.Each, p}]
	row := func(what string, met bool, reach, measured string, args ...any) {
		if ok {
			report.Reach(name+": "+what, met, reach, measured, args...)
		} else {
			report.Add(name+": "+what, measured, args...)
		}
	}
	row("enqueued and drained/s", rate >= goal.rate, fmt.Sprintf(">= %.2f x asynq", goal.rate), "%.0f, asynq %.0f: %.2f x", ours.whole, asynq.whole, rate)
	row("processor time of all for a message", processor <= goal.processor, fmt.Sprintf("<= %.1f x asynq", goal.processor),
		"%.0f us, asynq %.0f us: %.2f x", ours.processor, asynq.processor, processor)
}

// widths compares few sessions with many.
func widths(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	narrow, broad := lab.Load{Sessions: 1000, Each: 1}, lab.Load{Sessions: lab.Quick(*wide, *wide/10), Each: 1}
	var few, many, ratios []float64
	for range lab.Quick(*rounds/2|1, 1) { // an odd number has a middle
		var short []float64 // each takes a tenth of a second
		for range lab.Quick(9, 1) {
			f, err := drainTurnstile(ctx, srv, narrow, *slots)
			if err != nil {
				return err
			}
			short = append(short, f.rate)
		}
		m, err := drainTurnstile(ctx, srv, broad, *slots)
		if err != nil {
			return err
		}
		f := lab.Median(short)
		few, many, ratios = append(few, f), append(many, m.rate), append(ratios, m.rate/f)
	}
	ratio := lab.Median(ratios)
	report.Reach(fmt.Sprintf("%s against %s: messages/s", broad, narrow), ratio >= 0.9, "ratio >= 0.9",
		"%.0f against %.0f: %.2f", lab.Median(many), lab.Median(few), ratio)
	return nil
}
