package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"turnstile/bench/internal/lab"
)

// compare measures both libraries alternately and returns the medians.
func compare(ctx context.Context, s *lab.Server, rounds int, measure func(context.Context, locker) (float64, error)) (float64, float64, error) {
	var lockers []locker
	for _, build := range []maker{newOurs, newTheirs} {
		client := s.Client()
		defer func() { _ = client.Close() }()
		l, err := build(client)
		if err != nil {
			return 0, 0, err
		}
		defer l.close()
		lockers = append(lockers, l)
	}
	figures := make([][]float64, len(lockers))
	for round := range rounds + 1 {
		for i := range lockers {
			i = (i + round) % len(lockers) // the first one changes
			figure, err := measure(ctx, lockers[i])
			if err != nil {
				return 0, 0, err
			}
			if round > 0 { // the first warms up
				figures[i] = append(figures[i], figure)
			}
		}
	}
	return median(figures[0]), median(figures[1]), nil
}

// uncontended counts acquire+release per second, each goroutine on its own key.
func uncontended(ctx context.Context, l locker, goroutines int, length time.Duration) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var count atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for i := range goroutines {
		wg.Go(func() {
			name := fmt.Sprintf("own-%d", i)
			n := int64(0)
			for time.Since(start) < length && ctx.Err() == nil {
				release, err := l.try(ctx, name)
				if err == nil {
					err = release()
				}
				if err != nil {
					cancel(err)
					return
				}
				n++
			}
			count.Add(n)
		})
	}
	wg.Wait()
	return float64(count.Load()) / time.Since(start).Seconds(), context.Cause(ctx)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
