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

	// The deliverer's mu guards these.
	held  int           // lines that are delivered now
	moved time.Time     // when held changed
	freed chan struct{} // closed when a line ends, and made anew
}

func (d *Deliverer) target(destination string) *target {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.targets[destination]
	if t == nil {
		t = &target{freed: make(chan struct{})}
		t.breaker.open = backoff.Backoff{First: d.opts.BreakerPause, Longest: longestPauses * d.opts.BreakerPause, Spread: true}
		d.targets[destination] = t
	}
	return t
}

// acquire takes a slot for a line, and returns false if its destination gets none soon. A destination may hold
// as many slots as are free. So n slow ones together leave one part in n+1 to the others, and one alone gets half.
// This is the dynamic threshold of Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory
// packet switches" (1998).
func (d *Deliverer) acquire(t *target) bool {
	patience := time.NewTimer(sharePatience)
	defer patience.Stop()
	for {
		d.mu.Lock()
		if t.held < d.opts.Concurrency-d.held {
			d.hold(t, 1)
			d.mu.Unlock()
			return true
		}
		freed, slow := t.freed, time.Since(t.moved) > sharePatience
		d.mu.Unlock()
		if slow { // waiting would only keep the visit's slot from others
			return false
		}
		select {
		case <-freed:
		case <-patience.C:
			return false
		}
	}
}

func (d *Deliverer) release(t *target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold(t, -1)
	close(t.freed)
	t.freed = make(chan struct{})
}

// hold needs mu.
func (d *Deliverer) hold(t *target, n int) {
	t.held += n
	d.held += n
	t.moved = time.Now()
}

// wait returns how long this deliverer sends nothing to the destination, 0 if it may send.
func (d *Deliverer) wait(destination string) time.Duration {
	now := time.Now()
	if until := d.states.pausedUntil(destination); until.After(now) {
		return until.Sub(now)
	}
	return d.target(destination).breaker.wait(now)
}
