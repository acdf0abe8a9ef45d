package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"turnstile/chaos/internal/agents"
	"turnstile/chaos/internal/faults"
	"turnstile/chaos/internal/traffic"
	"turnstile/chaos/internal/world"
	"turnstile/test/harvest"
	"turnstile/test/history"
)

// options are the flags of a run.
type options struct {
	lasts, gap time.Duration
	seed       uint64
	rate       float64
	work       int
	only       string
	topology   string // several: a run after the other
	dir, root  string
	drain, ttl time.Duration
	overlay    map[string]string // files that replace some of the tree's
}

// flags are the options as flags, with their defaults.
func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.DurationVar(&o.lasts, "for", 2*time.Minute, "how long messages are sent and faults made; the drain comes on top")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64(), "repeats the messages and the schedule of faults")
	flags.Float64Var(&o.rate, "rate", 15, "users who begin to write, a second, as far as the machine keeps up; one in three sends many messages")
	flags.IntVar(&o.work, "work", 1, "how many times longer agents work than usual")
	flags.DurationVar(&o.gap, "gap", time.Second, "between two faults, in each of two lanes")
	flags.StringVar(&o.only, "only", "", "the one kind of fault to make; none: no fault")
	flags.StringVar(&o.topology, "topology", string(world.Single), "of Redis: single, failover, killed, sentinel, cluster or everysec; several, with commas: a run of each, one after the other")
	flags.DurationVar(&o.drain, "drain", drainWithin, "how long everything may take to end after the last fault, and how long a user waits for an outcome")
	flags.DurationVar(&o.ttl, "ttl", world.TTL, "of the workers' leases")
	flags.StringVar(&o.dir, "dir", "", "where the run is kept; without it, only a run with findings is")
	flags.StringVar(&o.root, "root", "..", "the tree from which the programs are built")
	return flags
}

// drainWithin is how long the world may take to end everything after the last fault. Deliveries to a
// receiver that failed for several sessions wait longest: two minutes at most, and then for the
// deliveries before them.
const drainWithin = 3 * time.Minute

// runs makes a run, or one of each topology with different seeds, and shows their totals.
func (o options) runs(ctx context.Context) (code int, err error) {
	topologies := strings.Split(o.topology, ",")
	if len(topologies) == 1 {
		return o.run(ctx)
	}
	if o.dir == "" {
		return exitBroken, errors.New("several runs need -dir: their histories are kept")
	}
	var dirs []string
	for i, topology := range topologies {
		one := o
		one.topology, one.seed, one.dir = topology, o.seed+uint64(i), filepath.Join(o.dir, fmt.Sprintf("%d-%s", i+1, topology))
		if _, err := one.run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
			code = exitBroken
			continue
		}
		dirs = append(dirs, one.dir)
	}
	all, err := totalled(dirs, o.ttl)
	return max(code, all), err
}

func (o options) run(ctx context.Context) (code int, err error) {
	keep := o.dir != ""
	if !keep {
		if o.dir, err = os.MkdirTemp("", "chaos-"); err != nil {
			return exitBroken, err
		}
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return exitBroken, err
	}
	fmt.Printf("chaos: seed %d, %s of messages and faults; history in %s\n", o.seed, o.lasts, o.dir)
	if err := o.live(ctx); err != nil {
		return exitBroken, fmt.Errorf("%w; see %s", err, o.dir)
	}
	report, err := check(o.dir, o.ttl)
	if err != nil {
		return exitBroken, err
	}
	code = printed(report)
	switch {
	case code == 0 && !keep:
		return code, os.RemoveAll(o.dir)
	case code == 0: // a long run's histories are large enough without Redis' files
		err = o.removeAllBut(agents.HistoryDir, "logs")
	}
	fmt.Printf("seed %d; the history lies in %s\n", o.seed, o.dir)
	return code, err
}

// removeAllBut removes the run's files except those with these names.
func (o options) removeAllBut(names ...string) error {
	all, err := os.ReadDir(o.dir)
	for _, e := range all {
		if !slices.Contains(names, e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(o.dir, e.Name())))
		}
	}
	return err
}

// live is the run until its history is complete.
func (o options) live(ctx context.Context) error {
	if names := faults.Names(world.Topology(o.topology)); o.only != "" && o.only != "none" && !slices.Contains(names, o.only) {
		return fmt.Errorf("no kind of fault is called %q: use one of %s", o.only, strings.Join(names, ", "))
	}
	for _, sub := range []string{agents.HistoryDir, "bin"} {
		if err := os.MkdirAll(filepath.Join(o.dir, sub), 0o755); err != nil {
			return err
		}
	}
	log, err := history.Open(filepath.Join(o.dir, agents.HistoryDir), "harness")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	programs, err := world.Build(ctx, o.root, filepath.Join(o.dir, "bin"), self, o.overlay)
	if err != nil {
		return err
	}
	hook, err := traffic.NewHook(ctx, log, o.dir)
	if err != nil {
		return err
	}
	defer hook.Close()
	w, err := world.Start(ctx, world.Topology(o.topology), o.ttl, o.dir, programs, log, hook.URL)
	defer w.Kill()
	if err != nil {
		return err
	}
	following, stopFollowing := context.WithCancel(ctx)
	defer stopFollowing()
	var followers sync.WaitGroup
	followers.Go(func() { stalls(following, log) })
	var users *traffic.Traffic
	users = traffic.New(w, log, o.rate, o.work, o.drain, func(session string) {
		followers.Go(func() { users.Follow(following, session, o.seed) })
	})
	o.storm(ctx, w, users, log)
	hook.Kind()
	users.ResumeDeliveries(ctx)
	log.Add(history.Record{Kind: history.Healed})

	rdb := w.Client(world.Admin)
	defer func() { _ = rdb.Close() }()
	h := harvest.New(rdb, log)
	drained(ctx, h, log, o.drain)
	time.Sleep(2 * time.Second) // followers read the last events
	stopFollowing()
	followers.Wait()
	if err := o.harvest(ctx, h, w, log, users.Sessions()); err != nil {
		return err
	}
	return log.Close()
}

// storm sends messages and makes faults until the time is over, and waits for both.
func (o options) storm(ctx context.Context, w *world.World, users *traffic.Traffic, log *history.Log) {
	ctx, cancel := context.WithTimeout(ctx, o.lasts)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { users.Run(ctx, o.seed) })
	group.Go(func() { users.OperateDeliveries(ctx, o.seed) })
	if o.only != "none" {
		group.Go(func() { faults.Run(ctx, w, log, o.seed, o.gap, o.only) })
	}
	group.Go(func() {
		for every := time.NewTicker(15 * time.Second); ; {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				sent, accepted := users.Sent()
				fmt.Printf("chaos: %d messages sent, %d accepted\n", sent, accepted)
			}
		}
	})
	group.Wait()
}

func (o options) harvest(ctx context.Context, h *harvest.Harvest, w *world.World, log *history.Log, sessions []string) error {
	records, err := history.Load(filepath.Join(o.dir, agents.HistoryDir))
	if err != nil {
		return err
	}
	if err := h.All(ctx, records, sessions); err != nil {
		return err
	}
	for _, name := range w.End() {
		log.Add(history.Record{Kind: history.Left, Name: "process", Target: name, Error: "it does not end by SIGTERM within 20s"})
	}
	processes(ctx, w, log)
	if err := h.Erased(ctx, sessions); err != nil {
		return err
	}
	return panics(w, log)
}
