package outbox

import (
	"time"

	"turnstile/internal/backoff"
)

// sharePatience is how long a line waits for a slot of its destination: long enough if the destination
// responds fast.
const sharePatience = 100 * time.Millisecond

// shareWait is how soon a line is visited again if its destination had no slot.
const shareWait = time.Second

// target is a deliverer's state of a destination.
type target struct {
	breaker breaker
	slots   chan struct{} // one for each line that is delivered now
}

func (d *Deliverer) target(destination string) *target {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.targets[destination]
	if t == nil {
		t = &target{slots: make(chan struct{}, (d.opts.Concurrency+1)/2)}
		t.breaker.open = backoff.Backoff{First: d.opts.BreakerPause, Longest: longestPauses * d.opts.BreakerPause, Spread: true}
		d.targets[destination] = t
	}
	return t
}

// acquire waits for a slot, and returns false if none gets free soon.
func (t *target) acquire() bool {
	select {
	case t.slots <- struct{}{}:
		return true
	default:
	}
	patience := time.NewTimer(sharePatience)
	defer patience.Stop()
	select {
	case t.slots <- struct{}{}:
		return true
	case <-patience.C:
		return false
	}
}

func (t *target) release() { <-t.slots }

// wait returns how long this deliverer sends nothing to the destination, 0 if it may send.
func (d *Deliverer) wait(destination string) time.Duration {
	now := time.Now()
	if until := d.states.pausedUntil(destination); until.After(now) {
		return until.Sub(now)
	}
	return d.target(destination).breaker.wait(now)
}
