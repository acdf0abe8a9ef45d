package worker

import (
	"context"
	"sync"
	"time"

	"turnstile/internal/protocol"
)

// share bounds how much a session may run under one claim while others wait.
type share struct {
	turns  int
	time   time.Duration
	sorted func() (since time.Time, ok bool) // by tenants
	others waiters
	life   *lifecycle
	slots  *slots
}

// over reports whether a session that has run so many turns since it was claimed should make room
// for others. While another tenant waits, its share is one turn.
func (s *share) over(session string, turns int, claimed time.Time) bool {
	if s.life.draining() || s.slots.wanted.Load() > 0 { // a turn was decided, and goes on ahead of others
		return true
	}
	since, sorted := s.sorted()
	if sorted && claimed.Before(since) {
		return true // to be sorted, and counted, by the table
	}
	used := turns >= s.turns || time.Since(claimed) >= s.time
	if !used && !sorted {
		return false
	}
	found := s.others.wait(s.life.work)
	return used && found.Any || found.Others(session)
}

// waiters checks which other sessions wait for a worker. All turns share one check every 20 ms.
type waiters struct {
	look func(context.Context) (protocol.Waiting, error)

	mu     sync.Mutex
	looked time.Time
	found  protocol.Waiting
}

// wait returns which others wait.
func (o *waiters) wait(ctx context.Context) protocol.Waiting {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.looked) < 20*time.Millisecond {
		return o.found
	}
	found, err := o.look(ctx)
	if err != nil {
		return protocol.Waiting{} // the session continues: it has the claim
	}
	o.looked, o.found = time.Now(), found
	return found
}
