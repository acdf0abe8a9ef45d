package main

import (
	"context"
	"time"

	"turnstile/bench/internal/lab"
	"turnstile/bench/peers/internal/history"
)

// setting is the setting of one table: persistence, and the shape of the load.
type setting struct {
	durable bool
	shape   lab.Load
}

// entry has the results of all runs of a peer in a setting, or the reason why there are none.
type entry struct {
	runs   []figures
	notRun string
}

// results are the entries of all settings, by the peers' names.
type results map[setting]map[string]*entry

// chosenShapes are those of this run.
func chosenShapes() []lab.Load { return lab.Quick(full, short) }

// settings are all, in the order of the tables.
func settings() (all []setting) {
	for _, durable := range []bool{false, true} {
		for _, shape := range chosenShapes() {
			all = append(all, setting{durable, shape})
		}
	}
	return all
}

// measureAll runs every peer once in each round and setting. Each round begins with another peer. A peer
// that fails in a setting is left out of its next rounds.
func measureAll(ctx context.Context, rounds int, patience time.Duration, chosen []peer) (results, error) {
	all := results{}
	for _, s := range settings() {
		all[s] = map[string]*entry{}
		for _, p := range chosen {
			e := &entry{}
			if err := p.unfit(ctx, s.durable); err != nil {
				e.notRun = err.Error()
			}
			all[s][p.name] = e
		}
	}
	for round := range rounds {
		for _, s := range settings() {
			for i := range chosen {
				p := chosen[(i+round)%len(chosen)]
				e := all[s][p.name]
				if e.notRun != "" {
					continue
				}
				began := time.Now()
				f, err := measure(ctx, p, s.shape, s.durable, patience)
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				if err != nil {
					e.runs, e.notRun = nil, err.Error()
					lab.Progress("%s, %s: not run: %s", p.name, s, e.notRun)
					continue
				}
				e.runs = append(e.runs, f)
				lab.Progress("%s, %s: %.0f/s, client %s, server %s; %s (%s)", p.name, s, f.rate, f.client, f.server, f.verdict, lab.Short(time.Since(began)))
			}
		}
	}
	return all, nil
}

func (s setting) String() string { return shapeName(s.shape) + ", " + kind(s.durable) }

// kind names the persistence.
func kind(durable bool) string {
	if durable {
		return "durable"
	}
	return "in memory"
}

// verdict adds up those of all runs.
func (e *entry) verdict() (all history.Verdict) {
	for _, f := range e.runs {
		all.Add(f.verdict)
	}
	return all
}

// spread is the median of a figure, with its range.
type spread struct{ low, median, high float64 }

func (e *entry) spread(of func(figures) float64) spread {
	values := make([]float64, len(e.runs))
	for i, f := range e.runs {
		values[i] = of(f)
	}
	return spread{lab.Quantile(values, 0), lab.Median(values), lab.Quantile(values, 1)}
}

func rate(f figures) float64      { return f.rate }
func handled(f figures) float64   { return f.handled }
func clientOf(f figures) float64  { return microseconds(f.client) }
func serverOf(f figures) float64  { return microseconds(f.server) }
func processor(f figures) float64 { return microseconds(f.client + f.server) }

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
