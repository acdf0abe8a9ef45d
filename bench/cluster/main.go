// Command cluster measures how an installation grows: a load drained from one Redis and from Redis Clusters of 1, 2 and
// more masters, by 1, 2 and more workers, each of which is another process (this binary, started again). The workers start
// together, and the time ends with the last turn's end.
//
// Here all processes share the machine's cores, so more of them are not faster. What bounds a larger installation is
// computed from processor times: all of it over all cores here, and the busiest node's where each node has a core.
//
// Then the keys that all sessions share have masters of their own. No further master takes work from such a key: it is
// in one slot. Its master's processor time is its cost, and the inverse is the rate at which the key is the bound: the
// lowest estimate, because a busy master needs less for each command than one that often sleeps. The last rows have a busy
// one's.
package main

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"

	"turnstile/bench/internal/lab"
)

var (
	rounds  = flag.Int("rounds", 3, "rounds of each load; medians are printed")
	masters = flag.Int("masters", 3, "masters of a cluster at most")
	workers = flag.Int("workers", 4, "workers at most; the keys that all sessions share are measured with as many")
	slots   = flag.Int("slots", 50, "slots of a worker")
	loads   = flag.String("loads", "1000x10", "sessions x messages, separated by commas")
	shared  = flag.String("shared", "1000x10,10000x1", "loads for the keys that all sessions share")
)

func main() {
	if lab.RunJob("cluster", job.run) {
		return
	}
	lab.Main("cluster", run)
}

func run(ctx context.Context, srv *lab.Server, report *lab.Report) error {
	all, err := lab.ParseLoads(*loads)
	if err != nil {
		return err
	}
	apart, err := lab.ParseLoads(*shared)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		err = grow(ctx, srv, report, all)
	}
	if len(apart) > 0 && err == nil {
		err = bounds(ctx, report, apart)
	}
	return err
}

// grow measures each number of masters with each number of workers.
func grow(ctx context.Context, srv *lab.Server, report *lab.Report, loads []lab.Load) error {
	places := []place{{"one Redis", "redis://" + srv.Addr(), []*lab.Server{srv}}}
	for n := range *masters {
		p, err := cluster(ctx, fmt.Sprintf("masters: %d", n+1), n+1)
		defer p.stop()
		if err != nil {
			return err
		}
		places = append(places, p)
	}
	for _, l := range loads {
		l = lab.Quick(l, l.Tenth())
		var names []string
		var ways []func() (measure, error)
		for _, p := range places {
			for w := 1; w <= lab.Quick(*workers, min(*workers, 2)); w++ {
				names = append(names, fmt.Sprintf("%s, %s, workers: %d", l, p.name, w))
				ways = append(ways, func() (measure, error) { return p.drain(ctx, l, w) })
			}
		}
		samples, err := lab.Alternate(lab.Quick(*rounds, 1), ways)
		if err != nil {
			return err
		}
		for i, name := range names {
			m := middle(samples[i])
			all, cores := m.workers, float64(runtime.NumCPU())
			for _, us := range m.drained {
				all += us
			}
			report.Add(name, "%.0f messages/s; a message: nodes %.1f us, commands %.2f, workers %.1f us; %.0f cores for all allow %.0f/s, a core for each node %.0f/s",
				m.rate, m.drained, m.commands, m.workers, cores, cores*1e6/all, 1e6/slices.Max(m.drained))
		}
	}
	return nil
}
