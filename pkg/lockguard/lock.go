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

// ErrLost says that a lock was lost, because it was not renewed in time or Redis has another
// holder. It is the cause of the lock's context, wrapped with the reason if that is known.
var ErrLost = lease.ErrLost

// errTaken is the reason if a script found the loss.
var errTaken = fmt.Errorf("%w: Redis has another holder or none", ErrLost)

// errReleased is the error of Held and Renew after Release.
var errReleased = fmt.Errorf("%w: it was released", ErrLost)

// Lock is a lock that is held. It is safe for concurrent use.
type Lock struct {
	claim *claim
	guard *Guard
	fence int64
	lease lease.Lease
	ctx   context.Context // the acquirer's

	renewing atomic.Bool
	wake     time.Time // wake and index belong to the keeper
	index    int

	mu     sync.Mutex
	over   bool  // released, or found lost by Release
	result error // what Release returns from then on
}

// lock returns the Lock of a claim that has it. Redis keeps it for left, counted from sent.
func (c *claim) lock(ctx context.Context, sent time.Time, fence int64, left time.Duration) *Lock {
	l := &Lock{claim: c, guard: c.guard, fence: fence, ctx: ctx}
	l.lease.InitUntimed(ctx, sent, left)
	c.guard.keeper.add(l, l.nextRenewal())
	return l
}

// Name returns the lock's name.
func (l *Lock) Name() string { return l.claim.name }

// Fence returns the lock's fencing token, which is higher than that of every earlier holder. Send
// it with each write under the lock, and let the store reject a token lower than the highest it has
// seen.
func (l *Lock) Fence() int64 { return l.fence }

// Context returns a context that ends when work under the lock must stop. Its cause wraps [ErrLost]
// when the lock is lost or may be lost, and is context.Canceled after Release.
//
// It also ends with the context of Acquire. That does not release the lock and does not stop its
// renewal, so the holder can still clean up alone.
func (l *Lock) Context() context.Context { return l.lease.Context() }

// Held returns nil while the lock may be trusted, and otherwise an error that wraps [ErrLost]. It
// reads this process's clock and does not ask Redis.
func (l *Lock) Held() error { return notHeld(l.lease.Held()) }

// Deadline returns when the lock counts as lost unless it is renewed.
func (l *Lock) Deadline() time.Time { return l.lease.Deadline() }

// Renew extends the lock to a full TTL from now. Call it with [WithoutRenewal], or to learn from
// Redis whether the lock is still held. The error wraps [ErrLost] if it is not. After any other
// error Redis may or may not have renewed it.
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

// renewed handles the result of a renewal.
func (l *Lock) renewed(sent time.Time, ours bool) {
	if ours {
		l.lease.Extend(sent, l.guard.ttl)
	} else {
		l.lease.Lose(errTaken)
	}
}

// renewNow is an automatic renewal.
func (l *Lock) renewNow() {
	defer l.renewing.Store(false)
	sent := time.Now()
	// The end of the acquirer's context does not end the lock.
	ours, err := l.claim.renew(context.WithoutCancel(l.ctx))
	next := time.Now().Add(l.guard.ttl / renewals / 10) // after an error, until trust ends
	if err == nil {
		l.renewed(sent, ours)
		next = l.nextRenewal()
	} else {
		l.lease.Blame(err)
	}
	if l.lease.Held() == nil {
		l.guard.keeper.wakeAt(l, next)
	}
}

// nextRenewal returns when a third of the TTL is used up. Without automatic renewal it returns the
// lease's end.
func (l *Lock) nextRenewal() time.Time {
	ttl := l.guard.ttl
	if l.guard.manual {
		return l.lease.Deadline()
	}
	return l.lease.Deadline().Add(ttl/renewals - lease.Trusted(ttl))
}

// discard ends a lock that was lost before the caller got it.
func (l *Lock) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over, l.result = true, errTaken
	l.end()
}

// end stops the renewals and the lease.
func (l *Lock) end() {
	l.guard.keeper.remove(l)
	l.lease.End()
}

// Release releases the lock and hands it to the next waiter. It may be called more than once, and
// never releases another holder's lock. It uses ctx's values but ignores its end, so that a
// cancelled caller still releases the lock.
//
// The error wraps [ErrLost] if Redis had another holder or none: then others may have worked under
// the lock at the same time. After any other error (Redis cannot be reached) call Release again, or
// the lock expires after its TTL. Context has ended in any case.
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
