package main

import (
	"testing"
	"time"

	"turnstile/pkg/worker"
)

func TestDrainLine(t *testing.T) {
	t.Parallel()
	if got := drainLine(worker.Status{Running: 3}, false); got != "" {
		t.Errorf("before the drain: %q", got)
	}
	for want, c := range map[string]struct {
		running int
		left    time.Duration
		cut     bool
	}{
		"draining: 3 turns running, 42s left (Ctrl-C again: interrupt them now)":    {3, 41*time.Second + time.Millisecond, false},
		"draining: 1 turn running, 1m0s left (Ctrl-C again: interrupt them now)":    {1, time.Minute, false},
		"draining: 1 turn running, 1s left (Ctrl-C again: interrupt them now)":      {1, 1, false},
		"draining: 2 turns running, being interrupted (Ctrl-C twice: end at once)":  {2, 0, false},
		"draining: 10 turns running, being interrupted (Ctrl-C again: end at once)": {10, time.Second, true},
		"draining: no turn runs any more":                                           {0, time.Minute, false},
	} {
		if got := drainLine(worker.Status{Draining: true, Running: c.running, Left: c.left}, c.cut); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
