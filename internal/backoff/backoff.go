// Package backoff has the pauses between attempts.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Backoff is the pause before the next attempt. It doubles with each failure.
type Backoff struct {
	First, Longest time.Duration

	// Spread varies a pause by up to a quarter, so that attempts that failed together do not come together
	// again.
	Spread bool
}

// Redis is the pause of a program that waits for Redis.
var Redis = Backoff{First: 50 * time.Millisecond, Longest: 2 * time.Second}

// After returns the pause after n failures in a row, at least one.
func (b Backoff) After(n int) time.Duration {
	pause := min(b.First, b.Longest)
	for ; n > 1 && pause < b.Longest; n-- {
		pause = min(2*pause, b.Longest)
	}
	if b.Spread {
		pause = time.Duration(float64(pause) * (0.75 + rand.Float64()/2))
	}
	return pause
}

// Wait waits for the pause after n failures in a row, or until done is closed.
func (b Backoff) Wait(done <-chan struct{}, n int) {
	select {
	case <-done:
	case <-time.After(b.After(n)):
	}
}
