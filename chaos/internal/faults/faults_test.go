package faults_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"turnstile/chaos/internal/faults"
	"turnstile/chaos/internal/world"
)

// A seed repeats its schedule, and another one makes another. The first faults are of each kind once.
func TestSchedule(t *testing.T) {
	t.Parallel()
	var kinds []faults.Kind
	for i := range 12 {
		kinds = append(kinds, faults.Kind{Name: fmt.Sprint(i), Weight: 1 + i%3})
	}
	text := func(seed uint64) (list []string) {
		for _, p := range faults.Schedule(kinds, seed, 200, time.Second) {
			list = append(list, fmt.Sprint(p.Kind.Name, p.After, p.Seed))
			if p.After < 500*time.Millisecond || p.After > 1500*time.Millisecond {
				t.Errorf("a pause of %s", p.After)
			}
		}
		return list
	}
	if !slices.Equal(text(1), text(1)) || slices.Equal(text(1), text(2)) {
		t.Error("a schedule is not its seed's")
	}
	first := map[string]bool{}
	for _, p := range faults.Schedule(kinds, 3, len(kinds), time.Second) {
		first[p.Kind.Name] = true
	}
	if len(first) != len(kinds) {
		t.Errorf("the first %d faults are of %d kinds", len(kinds), len(first))
	}
}

// Kinds have different names, because findings and delays are reported by them.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, topology := range []world.Topology{world.Single, world.Failover, world.Killed, world.Cluster, world.Everysec, world.Sentinel} {
		names := faults.Names(topology)
		if slices.Sort(names); len(slices.Compact(names)) != len(names) || len(names) < 15 {
			t.Errorf("%s: %v", topology, names)
		}
	}
}
