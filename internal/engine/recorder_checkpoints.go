package engine

import (
	"sync"
	"time"
)

// activity is what of an agent's event is worth a checkpoint.
type activity int

const (
	nothing   activity = iota // a tool's start, a thought: lost with its worker at no cost
	someText                  // part of a reply
	toolEnded                 // it may have changed the world, and is not to be run again
)

// toolsPerInterval bounds what tools add to the checkpoints: at most so many in one
// interval.
const toolsPerInterval = 10

// checkpoints stores what a turn has done while it runs:
//
//   - after text, when an interval is over since the last checkpoint or the turn's begin;
//   - after a tool's end at once, unless the last checkpoint is younger than a tenth of
//     the interval: then when that is over.
//
// It costs nothing while the agent does nothing: the timer is armed by the first
// activity after the last checkpoint.
type checkpoints struct {
	interval time.Duration
	began    time.Time // the turn
	store    func()
	containment

	mu    sync.Mutex
	timer *time.Timer // of the next one; nil: there was no activity since the last
	due   time.Time   // the next one
	last  time.Time   // the last one; zero: there was none
	ended bool
	under sync.WaitGroup // those that are armed or under way

	storing sync.Mutex // one at a time: an older one must not be the last
}

// after notes an activity.
func (c *checkpoints) after(a activity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	switch {
	case a == toolEnded && c.last.IsZero():
		c.armFor(time.Now())
	case a == toolEnded:
		c.armFor(c.last.Add(c.interval / toolsPerInterval))
	case c.last.IsZero():
		c.armFor(c.began.Add(c.interval))
	default:
		c.armFor(c.last.Add(c.interval))
	}
}

// now stores what there is as soon as it can, if there was any activity: the turn is
// about to be interrupted.
func (c *checkpoints) now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil && !c.ended {
		c.armFor(time.Now())
	}
}

// armFor sets the timer for a time, or leaves the one that comes before it. c.mu is held.
func (c *checkpoints) armFor(at time.Time) {
	if c.timer != nil {
		if !at.Before(c.due) || !c.timer.Stop() {
			return // it comes soon enough, or waits for the one that is being stored
		}
		c.under.Done()
	}
	c.due = at
	c.under.Add(1)
	c.timer = time.AfterFunc(time.Until(at), c.run)
}

func (c *checkpoints) run() {
	defer c.under.Done()
	defer c.contain("its checkpoint")
	c.storing.Lock()
	defer c.storing.Unlock()
	c.mu.Lock()
	c.timer, c.last = nil, time.Now()
	c.mu.Unlock()
	c.store()
}

// stop ends the checkpoints and waits for one that is under way.
func (c *checkpoints) stop() {
	c.mu.Lock()
	c.ended = true
	if c.timer != nil && c.timer.Stop() {
		c.under.Done()
	}
	c.mu.Unlock()
	c.under.Wait()
}
