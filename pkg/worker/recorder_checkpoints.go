package worker

import (
	"sync"
	"time"
)

// activity is how much an event of the agent matters to a checkpoint.
type activity int

const (
	nothing   activity = iota // a tool's start, a thought: losing it costs nothing
	someText                  // part of a reply
	toolEnded                 // the tool may have had effects, and should not run again
)

// toolsPerInterval bounds how many checkpoints of tools there are in one interval.
const toolsPerInterval = 10

// checkpoints stores a turn's entries while it runs:
//
//   - after text, when an interval has passed since the last checkpoint or the turn's start;
//   - after a tool's end at once, unless the last checkpoint is younger than a tenth of
//     the interval: then at the end of that tenth.
//
// It costs nothing while the agent does nothing: the first activity after a checkpoint sets the
// timer.
type checkpoints struct {
	interval time.Duration
	began    time.Time // when the turn started
	store    func()
	containment

	mu    sync.Mutex
	timer *time.Timer // of the next checkpoint; nil: no activity since the last
	due   time.Time   // when the next one is due
	last  time.Time   // when the last one was taken; zero: never
	ended bool
	under sync.WaitGroup // checkpoints that are scheduled or being stored

	storing oneAtATime // one at a time, so that an older one is never stored last
}

// after schedules a checkpoint for an activity.
func (c *checkpoints) after(a activity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	switch {
	case a == toolEnded && c.last.IsZero():
		c.scheduleAt(time.Now())
	case a == toolEnded:
		c.scheduleAt(c.last.Add(c.interval / toolsPerInterval))
	case c.last.IsZero():
		c.scheduleAt(c.began.Add(c.interval))
	default:
		c.scheduleAt(c.last.Add(c.interval))
	}
}

// now takes a checkpoint as soon as possible, if there was any activity: the turn is about to be
// interrupted.
func (c *checkpoints) now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil && !c.ended {
		c.scheduleAt(time.Now())
	}
}

// scheduleAt sets the timer, unless it is set for an earlier time. c.mu is held.
func (c *checkpoints) scheduleAt(at time.Time) {
	if c.timer != nil {
		if !at.Before(c.due) || !c.timer.Stop() {
			return // it is soon enough, or waits for the checkpoint that is being stored
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
	c.storing.lock()
	defer c.storing.unlock()
	c.mu.Lock()
	c.timer, c.last = nil, time.Now()
	c.mu.Unlock()
	c.store()
}

// stop ends the checkpoints and waits for one that is being stored.
func (c *checkpoints) stop() {
	c.mu.Lock()
	c.ended = true
	if c.timer != nil && c.timer.Stop() {
		c.under.Done()
	}
	c.mu.Unlock()
	c.under.Wait()
}
