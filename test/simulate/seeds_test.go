package simulate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"turnstile/test/checker"
	"turnstile/test/simulate"
)

// TestSeeds lives many lives, in one process for each processor. It repeats some of them, to see how
// often a seed repeats its history.
func TestSeeds(t *testing.T) {
	if *seeds == 0 {
		t.Skip("make simulate")
	}
	binary := build(t)
	var list []uint64
	for i := range uint64(*seeds) {
		list = append(list, *first+i)
	}
	began := time.Now()
	all, used := spread(t, binary, list)
	took := time.Since(began)

	var reports []checker.Report
	var simulated time.Duration
	prints := map[uint64]uint64{}
	for _, s := range all {
		prints[s.Seed] = s.Print
		simulated += s.Simulated
		reports = append(reports, s.Report)
		for _, f := range s.Report.Findings {
			t.Errorf("seed %d: %s\n\tagain: make simulate SEED=%d SEEDS=1\n\thistory: %s", s.Seed, f, s.Seed, kept(t, s))
		}
	}
	fmt.Printf("%d lives from seed %d\n", len(all), *first)
	total := checker.Total(reports)
	total.Findings = nil // each is shown with its seed
	total.Print(os.Stdout)
	fmt.Printf("%v in %v: %.0f times as fast as the clock (%.0f times for each processor)\n",
		simulated.Round(time.Second), took.Round(time.Second/10), simulated.Seconds()/took.Seconds(), simulated.Seconds()/used.Seconds())

	again := list[:min(len(list), max(10, len(list)/10))]
	same := 0
	twice, _ := spread(t, binary, again)
	for _, s := range twice {
		if s.Print == prints[s.Seed] {
			same++
		}
	}
	fmt.Printf("%d of %d seeds had the same history twice\n", same, len(twice))
}

// spread lives lives, as many at a time as there are processors, and returns them in the order of
// their seeds. used is the processor's time.
func spread(t *testing.T, binary string, seeds []uint64) (all []simulate.Summary, used time.Duration) {
	t.Helper()
	all = make([]simulate.Summary, len(seeds))
	var total atomic.Int64
	var running sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for i, seed := range seeds {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			s, took := runLife(t, binary, seed)
			all[i] = s
			total.Add(int64(took))
		})
	}
	running.Wait()
	return all, time.Duration(total.Load())
}

// kept writes a history into a file, and returns the file's path.
func kept(t *testing.T, s simulate.Summary) string {
	t.Helper()
	file := filepath.Join(*keep, fmt.Sprintf("turnstile-simulate-%d.txt", s.Seed))
	if err := os.WriteFile(file, []byte(s.History+"\n"), 0o600); err != nil {
		t.Error(err)
	}
	return file
}
