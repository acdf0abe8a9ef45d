package engine

import (
	"context"
	"sync"
	"time"
)

// share is how much a session may run under one claim while others wait.
type share struct {
	turns  int
	time   time.Duration
	others waiters
	life   *lifecycle
}

// over reports whether a session that has run so many turns since it was claimed
// should make way for others.
func (s *share) over(turns int, claimed time.Time) bool {
	if s.life.draining() {
		return true
	}
	if turns < s.turns && time.Since(claimed) < s.time {
		return false
	}
	return s.others.wait(s.life.work)
}

// waiters looks whether other sessions wait for a worker, at most every 20 ms for
// all turns together.
type waiters struct {
	look func(context.Context) (bool, error)

	mu     sync.Mutex
	looked time.Time
	found  bool
}

// wait reports whether others wait.
func (o *waiters) wait(ctx context.Context) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.looked) < 20*time.Millisecond {
		return o.found
	}
	found, err := o.look(ctx)
	if err != nil {
		return false // the session goes on: it has the sentinel
	}
	o.looked, o.found = time.Now(), found
	return found
}
