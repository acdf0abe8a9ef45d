// Package faults breaks a world, by a schedule made from a seed. The same seed repeats the faults,
// their targets and their order. The turns that they hit depend on the machine.
package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"turnstile/chaos/internal/world"
	"turnstile/test/history"
)

// Kind is a kind of fault.
type Kind struct {
	Name   string
	Weight int // its frequency, relative to the others of its lane

	// Break makes the fault and returns at its end. target names the affected process or server.
	Break func(ctx context.Context, w *world.World, rng *rand.Rand) (target string, err error)
}

// lanes run concurrently: each breaks one thing after the other. One breaks processes, the other Redis,
// the network and clocks.
func lanes(t world.Topology) [][]Kind {
	switch t {
	case world.Failover:
		return [][]Kind{processes, slices.Concat(servers, network, failovers)}
	case world.Killed:
		return [][]Kind{processes, slices.Concat(servers, network, kills)}
	case world.Everysec:
		return [][]Kind{processes, slices.Concat(servers[1:], network, crashes)}
	case world.Sentinel:
		return [][]Kind{processes, mended(slices.Concat(servers, network, elections))}
	case world.Cluster:
		return [][]Kind{processes, slices.Concat(servers, migrations)}
	}
	return [][]Kind{processes, slices.Concat(servers, network)}
}

// Names lists the kinds of faults for a topology.
func Names(t world.Topology) (names []string) {
	for _, lane := range lanes(t) {
		for _, k := range lane {
			names = append(names, k.Name)
		}
	}
	return names
}

// Planned is one fault of a schedule.
type Planned struct {
	After time.Duration // the pause before it
	Kind  Kind
	Seed  uint64 // of its choices
}

// Schedule is the first n faults of a lane with these kinds. The first ones are of each kind once.
func Schedule(kinds []Kind, seed uint64, n int, gap time.Duration) (plan []Planned) {
	rng := rand.New(rand.NewPCG(seed, 100))
	total := 0
	for _, k := range kinds {
		total += k.Weight
	}
	order := rng.Perm(len(kinds))
	for i := range n {
		p := Planned{After: time.Duration((0.5 + rng.Float64()) * float64(gap)), Seed: rng.Uint64()}
		if i < len(order) {
			p.Kind = kinds[order[i]]
		} else {
			x := rng.IntN(total)
			for _, k := range kinds {
				if x -= k.Weight; x < 0 {
					p.Kind = k
					break
				}
			}
		}
		plan = append(plan, p)
	}
	return plan
}

// Run breaks the world until ctx ends, and returns when the last fault is over. only names the one
// kind to use; empty: all.
func Run(ctx context.Context, w *world.World, log *history.Log, seed uint64, gap time.Duration, only string) {
	done := make(chan struct{})
	all := lanes(w.Topology)
	for lane, kinds := range all {
		go func() {
			defer func() { done <- struct{}{} }()
			for _, p := range Schedule(kinds, seed+uint64(lane), 100_000, gap) {
				if only != "" && p.Kind.Name != only {
					continue
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(p.After):
				}
				began := time.Now().UnixNano()
				// The fault is ended, so that nothing stays broken.
				target, err := p.Kind.Break(context.WithoutCancel(ctx), w, rand.New(rand.NewPCG(p.Seed, 3)))
				rec := history.Record{Kind: history.Fault, Name: p.Kind.Name, Target: target, Since: began}
				if err != nil {
					rec.Error = fmt.Sprint(err)
				}
				log.Add(rec)
				if errors.Is(err, errOutlived) {
					log.Add(history.Record{Kind: history.Left, Name: "process", Target: target, Error: rec.Error})
				}
			}
		}()
	}
	for range all {
		<-done
	}
}

func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}
