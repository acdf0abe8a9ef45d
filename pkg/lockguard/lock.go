package lockguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"turnstile/internal/lease"
)

// ErrLost says that a lock was lost: it was not renewed in time, or Redis has another
// holder. It is the cause of the lock's context, wrapped with what is known of the reason.
var ErrLost = lease.ErrLost

// errTaken is the reason of a loss that a script found out.
var errTaken = fmt.Errorf("%w: Redis has another holder or none", ErrLost)

// errReleased is what a released lock returns.
var errReleased = fmt.Errorf("%w: it was released", ErrLost)

// Lock is a lock that is held. Its methods may be called by several goroutines at once.
type Lock struct {
	claim *claim
	fence int64
	lease lease.Lease
	ctx   context.Context // the acquirer's

	renewing atomic.Bool
	wake     time.Time // the keeper's, as is index
	index    int

	mu     sync.Mutex
	over   bool  // released, or found lost by Release
	result error // what Release returns from then on
}

// lock makes the Lock of a claim that got it; left is for how long Redis keeps it from
// sent on.
func (c *claim) lock(ctx context.Context, sent time.Time, fence int64, left time.Duration) *Lock {
	l := &Lock{claim: c, fence: fence, ctx: ctx}
	l.lease.InitUntimed(ctx, sent, left)
	c.guard.keeper.add(l, l.nextRenewal())
	return l
}

// Name is the lock's name.
func (l *Lock) Name() string { return l.claim.name }

// Fence is the lock's fencing token. It is greater than that of every earlier holder.
// Whoever is changed under the lock refuses a token lower than the greatest it has seen.
func (l *Lock) Fence() int64 { return l.fence }

// Context ends with a cause that wraps [ErrLost] when the lock is lost or may be; with
// the cause context.Canceled when it is released; and with the context that it was
// acquired with. That last end does not release the lock and does not stop its renewal:
// what winds down is still alone.
func (l *Lock) Context() context.Context { return l.lease.Context() }

// Held returns nil while the lock may be trusted, else an error that wraps [ErrLost]. It
// reads this process's clock and does not ask Redis.
func (l *Lock) Held() error { return notHeld(l.lease.Held()) }

// Deadline is when the lock counts as lost unless it is renewed.
func (l *Lock) Deadline() time.Time { return l.lease.Deadline() }

// Renew lets the lock be held for a full TTL from now. Call it with [WithoutRenewal], or
// to learn from Redis whether the lock is still held. The error wraps [ErrLost] if it is
// not; after another error Redis may or may not have renewed it.
func (l *Lock) Renew(ctx context.Context) error {
	err := l.Held()
	if err == nil {
		sent := time.Now()
		var ours bool
		if ours, err = l.claim.renew(ctx); err == nil {
			l.renewed(sent, ours)
			err = l.Held()
		}
	}
	if err != nil {
		return fmt.Errorf("lock %q: %w", l.Name(), err)
	}
	return nil
}

// renewed takes in what a renewal returned.
func (l *Lock) renewed(sent time.Time, ours bool) {
	if ours {
		l.lease.Extend(sent, l.claim.guard.ttl)
	} else {
		l.lease.Lose(errTaken)
	}
}

// renewNow is a renewal of the guard's own.
func (l *Lock) renewNow() {
	defer l.renewing.Store(false)
	sent := time.Now()
	// The acquirer's end does not end the lock.
	ours, err := l.claim.renew(context.WithoutCancel(l.ctx))
	next := time.Now().Add(l.claim.guard.ttl / renewals / 10) // an error: again soon, until trust ends
	if err == nil {
		l.renewed(sent, ours)
		next = l.nextRenewal()
	} else {
		l.lease.Blame(err)
	}
	if l.lease.Held() == nil {
		l.claim.guard.keeper.wakeAt(l, next)
	}
}

// nextRenewal is when a third of a full TTL is used up; without automatic renewal, the
// lease's end.
func (l *Lock) nextRenewal() time.Time {
	ttl := l.claim.guard.ttl
	if l.claim.guard.manual {
		return l.lease.Deadline()
	}
	return l.lease.Deadline().Add(ttl/renewals - lease.Trusted(ttl))
}

// discard forgets a lock that ended before the caller saw it.
func (l *Lock) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.result = true, errTaken
	l.end()
}

// end stops renewals and trust.
func (l *Lock) end() {
	l.claim.guard.keeper.remove(l)
	l.lease.End()
}

// Release releases the lock, and hands it to the next waiter. It may be called more than
// once, and never releases another's lock. ctx's values count, its end does not: a
// cancelled caller still releases the lock.
//
// The error wraps [ErrLost] if Redis had another holder or none: what was done under the
// lock may not have been alone. After another error (Redis cannot be reached) Release may
// be called again; if it is not, the lock ends with its TTL. In any case Context has
// ended.
func (l *Lock) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return l.result
	}
	l.end()
	released, err := l.claim.release(context.WithoutCancel(ctx), false)
	if err != nil {
		return fmt.Errorf("release lock %q: %w", l.Name(), err)
	}
	l.over = true
	if !released {
		lost := l.lease.Held()
		if !errors.Is(lost, ErrLost) {
			lost = errTaken
		}
		l.result = fmt.Errorf("release lock %q: %w", l.Name(), lost)
	}
	return l.result
}

func notHeld(err error) error {
	if err == nil || errors.Is(err, ErrLost) {
		return err
	}
	return errReleased
}
