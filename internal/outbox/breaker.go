package outbox

import (
	"sync"
	"time"

	"turnstile/internal/backoff"
)

// breakerSessions is how many sessions must fail in a row. A failure of one session may be its own
// fault.
const breakerSessions = 3

// probeWait is how long others wait for the answer to a probe.
const probeWait = time.Second

// breaker keeps a deliverer from trying each session's records at a destination that fails for all. It
// opens for a time, then admits one attempt, the probe. The answer to the probe closes it, or opens it
// for longer.
//
// Libraries count attempts. This one counts sessions, because a session with many records and a wrong
// chat must not stop the others. Each deliverer has one, which follows those of other deliverers.
type breaker struct {
	open backoff.Backoff

	mu      sync.Mutex
	failed  map[string]bool // sessions since the last success
	opened  int             // how often in a row
	until   time.Time       // zero: it is closed
	probing bool
}

// change is the effect of an answer on a breaker.
type change int

const (
	unchanged change = iota
	opened           // for the first time
	reopened         // by a probe that failed
	closed
)

// wait returns how long attempts must wait, 0 if one is admitted.
func (b *breaker) wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left(now)
}

func (b *breaker) left(now time.Time) time.Duration {
	switch left := b.until.Sub(now); {
	case b.until.IsZero():
		return 0
	case left > 0:
		return left
	case b.probing:
		return probeWait
	}
	return 0
}

// follow opens a closed breaker until then, or closes it if until is zero.
func (b *breaker) follow(until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case until.IsZero():
		b.failed, b.until, b.opened = nil, time.Time{}, 0
	case b.until.IsZero():
		b.until, b.opened = until, 1
	}
}

// admit lets an attempt begin, or returns how long it must wait. The caller ends an admitted attempt
// by done or cancel.
func (b *breaker) admit(now time.Time) (probe bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if wait := b.left(now); wait > 0 {
		return false, wait
	}
	b.probing = !b.until.IsZero()
	return b.probing, 0
}

// cancel ends an attempt that was not made.
func (b *breaker) cancel(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
}

// done ends an attempt with its answer. until is when an open breaker admits the next probe.
func (b *breaker) done(session string, probe bool, c class, now time.Time) (what change, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
	if c != failing {
		what = unchanged
		if !b.until.IsZero() {
			what = closed
		}
		b.failed, b.until, b.opened = nil, time.Time{}, 0
		return what, b.until
	}
	what = reopened
	if !probe {
		what = opened
		if !b.until.IsZero() { // admitted before it opened
			return unchanged, b.until
		}
		if b.failed == nil {
			b.failed = map[string]bool{}
		}
		if b.failed[session] = true; len(b.failed) < breakerSessions {
			return unchanged, b.until
		}
	}
	b.opened++
	b.until = now.Add(b.open.After(b.opened))
	return what, b.until
}
