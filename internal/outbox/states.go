package outbox

import (
	"context"
	"maps"
	"sync"
	"time"

	"turnstile/internal/protocol/deliveries"

	"github.com/redis/go-redis/v9"
)

// statesAge is how old a deliverer's knowledge of the destinations' states may be.
const statesAge = time.Second

// noEnd is how often a destination is checked if its pause has no end.
const noEnd = time.Minute

// states are the destinations' states that all deliverers share. An operator, an answer 410, or an open
// breaker of a deliverer stops the deliveries to a destination.
type states struct {
	rdb    redis.UniversalClient
	failed func(what string, err error)

	reading chan struct{} // holds a value while one caller reads or stores; the others wait

	mu    sync.Mutex
	known map[string]time.Time // a destination gets nothing until then; zero: until an operator enables it
	at    time.Time            // of the last read
}

// refresh reads the states unless they were read after since. It calls follow for each destination that
// a breaker pauses, with the end of the pause, and for each that was stopped and no longer is, with the
// zero time. All callers return after that: a visit that saw the new states and the old breakers would
// park its session until the end of a pause that is over.
func (s *states) refresh(ctx context.Context, since time.Time, follow func(destination string, until time.Time)) {
	s.reading <- struct{}{}
	defer func() { <-s.reading }()
	now := time.Now()
	s.mu.Lock()
	fresh := !s.at.Before(since)
	s.mu.Unlock()
	if fresh {
		return
	}
	stored, clock, err := deliveries.Destinations(ctx, s.rdb)
	if err != nil {
		s.failed("read the destinations' states", err)
		return
	}
	read := ends(stored, clock, now)
	s.mu.Lock()
	before := s.known
	s.known, s.at = read, now
	s.mu.Unlock()
	for name := range before {
		if _, still := read[name]; !still {
			follow(name, time.Time{})
		}
	}
	for name, until := range read {
		if !until.IsZero() {
			follow(name, until)
		}
	}
}

// ends returns what states.known has of the stored states. This machine's clock was here when Redis' was
// there.
func ends(stored map[string]deliveries.DestinationState, there, here time.Time) map[string]time.Time {
	until := make(map[string]time.Time, len(stored))
	for name, state := range stored {
		until[name] = time.Time{}
		if state.Paused && state.At > 0 && !state.Disabled {
			until[name] = here.Add(time.UnixMilli(state.At).Sub(there))
		}
	}
	return until
}

// refreshStates reads the states unless they were read after since, and makes this deliverer's breakers
// follow them: a pause that another deliverer began ends with a probe here, too.
func (d *Deliverer) refreshStates(since time.Time) {
	d.states.refresh(d.work, since, func(name string, until time.Time) {
		if d.opts.Destinations().Named(name) != nil {
			d.target(name).breaker.follow(until)
		}
	})
}

// pausedUntil returns the end of a destination's pause; zero: it is not paused.
func (s *states) pausedUntil(destination string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, paused := s.known[destination]
	if paused && until.IsZero() {
		return time.Now().Add(noEnd)
	}
	return until
}

// set stores a finding about a destination for all deliverers. It does not change the state of one that
// an operator or an answer 410 has stopped. This deliverer uses the finding until the next read.
func (s *states) set(ctx context.Context, f deliveries.Finding) error {
	s.reading <- struct{}{}
	defer func() { <-s.reading }()
	stored, err := f.Store(ctx, s.rdb)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
	if err != nil || !stored {
		return err
	}
	s.known = maps.Clone(s.known)
	switch {
	case f.Disabled:
		s.known[f.Destination] = time.Time{}
	case f.Pause > 0:
		s.known[f.Destination] = time.Now().Add(f.Pause)
	default:
		delete(s.known, f.Destination)
	}
	return nil
}
