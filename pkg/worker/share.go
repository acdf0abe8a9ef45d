package worker

import (
	"context"
	"sync"
	"time"
)

// share bounds how much a session may run under one claim while others wait.
type share struct {
	turns  int
	time   time.Duration
	others waiters
	life   *lifecycle
	slots  *slots
}

// over reports whether a session that has run so many turns since it was claimed should make room
// for others.
func (s *share) over(turns int, claimed time.Time) bool {
	if s.life.draining() || s.slots.wanted.Load() > 0 { // a turn was decided, and goes on ahead of others
		return true
	}
	if turns < s.turns && time.Since(claimed) < s.time {
		return false
	}
	return s.others.wait(s.life.work)
}

// waiters checks whether other sessions wait for a worker. All turns share one check every 20 ms.
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
		return false // the session continues: it has the claim
	}
	o.looked, o.found = time.Now(), found
	return found
}
