package worker

import (
	"context"
	"sync/atomic"
	"time"
)

// slots bounds how many sessions run at once. Each takes a slot, and lends it while its turn waits long for the
// user: see seat.
type slots struct {
	taken chan struct{}
	lent  chan struct{} // holds a token for each session without a slot

	// Sessions that want their slot back receive one: from next when it is freed, ahead of new claims; from swap
	// when another session lends it, which takes over the token, too.
	next, swap chan struct{}
	wanted     atomic.Int32 // their number
}

func newSlots(n, lent int) *slots {
	return &slots{taken: make(chan struct{}, n), lent: make(chan struct{}, max(lent, 0)), next: make(chan struct{}), swap: make(chan struct{})}
}

// take waits for a free slot and takes as many as are free, up to most. It returns 0 if ctx is
// done.
func (s *slots) take(ctx context.Context, most int) int {
	if ctx.Err() != nil {
		return 0 // a select may take a slot although ctx is done, and another pop takes time
	}
	select {
	case <-ctx.Done():
		return 0
	case s.taken <- struct{}{}:
	}
	return 1 + s.try(most-1)
}

// try takes up to n slots that are free now.
func (s *slots) try(n int) (taken int) {
	for taken < n {
		select {
		case s.taken <- struct{}{}:
			taken++
		default:
			return taken
		}
	}
	return taken
}

func (s *slots) free(n int) {
	for range n {
		select {
		case s.next <- struct{}{}:
		default:
			<-s.taken
		}
	}
}

// seat is the slot of a session. Its turn keeps process and lease while the slot is lent.
type seat struct {
	slots  *slots
	lent   atomic.Bool
	change oneAtATime
	over   bool // guarded by change
}

func newSeat(s *slots) *seat { return &seat{slots: s, change: newOneAtATime()} }

// lendAfter lends the slot after a while, as soon as not too many are lent. stop ends that, and reports whether
// the slot is lent. then is called when it is.
func (s *seat) lendAfter(ctx context.Context, after time.Duration, then func()) (stop func() bool) {
	ctx, cancel := context.WithCancel(ctx)
	lent := make(chan bool, 1)
	go func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		ok := s.lend(ctx)
		if ok {
			then()
		}
		lent <- ok
	}()
	return func() bool { cancel(); return <-lent }
}

func (s *seat) lend(ctx context.Context) bool {
	s.change.lock()
	defer s.change.unlock()
	if s.over || ctx.Err() != nil {
		return false
	}
	select {
	case s.slots.lent <- struct{}{}:
		s.lent.Store(true)
		s.slots.free(1)
	case s.slots.swap <- struct{}{}:
		s.lent.Store(true)
	case <-ctx.Done():
		return false
	}
	return true
}

// takeBack waits for a slot, if this one is lent, until ctx ends. Without one the session must run no further turn.
func (s *seat) takeBack(ctx context.Context) error {
	s.change.lock()
	defer s.change.unlock()
	if s.over || !s.lent.Load() {
		return nil
	}
	s.slots.wanted.Add(1)
	defer s.slots.wanted.Add(-1)
	select {
	case s.slots.taken <- struct{}{}:
		<-s.slots.lent
	case <-s.slots.next:
		<-s.slots.lent
	case <-s.slots.swap:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.lent.Store(false)
	return nil
}

// end gives the slot up at the session's end.
func (s *seat) end() {
	s.change.lock()
	defer s.change.unlock()
	s.over = true
	if s.lent.Load() {
		<-s.slots.lent
	} else {
		s.slots.free(1)
	}
}

// asks begins the wait for a decision, and returns what ends it. A turn that cannot be parked lends its slot.
func (q *questions) asks(ctx context.Context, key string) (over func()) {
	q.open.begin()
	if key != "" || q.parks.after <= 0 {
		return q.open.end
	}
	stop := q.parks.seat.lendAfter(ctx, q.parks.after, q.open.end)
	return func() {
		if lent := stop(); !lent {
			q.open.end()
		}
	}
}
