package engine

import (
	"sync"
	"time"
)

// checkpoints stores from time to time what a turn has done. It costs nothing
// while the agent does nothing: the timer is armed by the first activity after
// the last checkpoint. What counts as activity is text and tools that have ended.
type checkpoints struct {
	mu    sync.Mutex
	next  *time.Timer // armed: there was activity since the last checkpoint
	last  time.Time   // of the last checkpoint, or the turn's begin
	ended bool
	under sync.WaitGroup

	storing sync.Mutex // one at a time: an older one must not be the last
}

// active is called at every activity.
func (r *recorder) active() {
	c := &r.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil || c.ended {
		return
	}
	if c.last.IsZero() {
		c.last = r.turn.Started
	}
	r.arm(max(0, r.turn.served.w.opts.CheckpointInterval-time.Since(c.last)))
}

// checkpoint stores what there is as soon as it can, if there was any activity:
// the turn is about to be cut off.
func (r *recorder) checkpoint() {
	c := &r.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil && c.next.Stop() {
		c.under.Done()
		r.arm(0)
	}
}

// arm lets the next checkpoint happen after a while. c.mu is held.
func (r *recorder) arm(after time.Duration) {
	c := &r.checkpoints
	c.under.Add(1)
	c.next = time.AfterFunc(after, func() {
		defer c.under.Done()
		defer r.turn.contain("its checkpoint")
		c.storing.Lock()
		defer c.storing.Unlock()
		c.mu.Lock()
		c.next, c.last = nil, time.Now()
		c.mu.Unlock()
		entries := r.soFar()
		if len(entries) == 0 {
			return // what an earlier run had done is stored
		}
		if err := r.turn.hold.Checkpoint(r.turn.hold.Lease().Context(), entries); err != nil {
			r.turn.log.Warn("the turn's checkpoint was not stored", "error", err)
		}
	})
}

// stopCheckpoints ends them and waits for one that is under way.
func (r *recorder) stopCheckpoints() {
	c := &r.checkpoints
	c.mu.Lock()
	c.ended = true
	if c.next != nil && c.next.Stop() {
		c.under.Done()
	}
	c.mu.Unlock()
	c.under.Wait()
}
