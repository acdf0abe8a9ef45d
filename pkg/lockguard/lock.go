package lockguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"turnstile/internal/protocol/lease"
)

// renewals is how many renewals fit into one TTL.
const renewals = 3

var (
	errTaken    = fmt.Errorf("%w: Redis has another holder or none", ErrLost)
	errReleased = fmt.Errorf("%w: it was released", ErrLost)
)

// Lock is a lock that is held and renewed. It is safe for concurrent use.
type Lock struct {
	claim *claim
	fence int64
	lease *lease.Lease

	mu       sync.Mutex
	renewal  *time.Timer
	released bool
	result   error // of Release
}

// lock returns the lock of a claim that has it for a TTL from sent.
func (c *claim) lock(ctx context.Context, sent time.Time, fence int64) *Lock {
	l := &Lock{claim: c, fence: fence, lease: lease.New(context.WithoutCancel(ctx), sent, c.guard.ttl)}
	l.mu.Lock() // the timer may fire before it is stored
	defer l.mu.Unlock()
	l.renewal = time.AfterFunc(c.guard.ttl/renewals-time.Since(sent), l.renew)
	return l
}

// Name returns the lock's name.
func (l *Lock) Name() string { return l.claim.name }

// Fence returns the lock's fencing token, which is higher than that of every earlier holder. Send it
// with each write under the lock, and let the store reject a token lower than the highest it has seen.
func (l *Lock) Fence() int64 { return l.fence }

// Context returns a context for work under the lock, derived from parent. It also ends when the lock is
// lost or may be lost (the cause wraps [ErrLost]), and with Release (the cause is context.Canceled).
func (l *Lock) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	held := l.lease.Context()
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	context.AfterFunc(ctx, func() { stop() })
	if l.lease.Held() != nil {
		cancel(context.Cause(held))
	}
	return ctx
}

// Held returns nil while the lock may be trusted, and otherwise an error that wraps [ErrLost]. It reads
// this process's clock and does not ask Redis.
func (l *Lock) Held() error {
	err := l.lease.Held()
	if err != nil && !errors.Is(err, ErrLost) {
		return errReleased
	}
	return err
}

// Release releases the lock and hands it to the next waiter. It may be called more than once, and never
// releases another holder's lock. It ignores the end of ctx, so that a cancelled caller still releases
// the lock.
//
// The error wraps [ErrLost] if Redis had another holder or none: others may have worked under the lock
// at the same time. After any other error (Redis cannot be reached) call Release again, or the lock
// expires after its TTL.
func (l *Lock) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return l.result
	}
	l.renewal.Stop()
	l.lease.End()
	had, err := l.claim.release(ctx)
	if l.released = err == nil; l.released && !had {
		err = errTaken
	}
	l.result = l.claim.failed(err)
	return l.result
}

// renew renews the lock, and sets the timer for the next time.
func (l *Lock) renew() {
	c, sent := l.claim, time.Now()
	ttl := c.guard.ttl
	r, err := lockScript.Run(l.lease.Context(), c.guard.rdb, c.keys[:], "renew", c.token, ttl.Milliseconds())
	next := ttl/renewals - time.Since(sent)
	switch {
	case err != nil:
		l.lease.Blame(err)
		next = ttl / renewals / 10
	case r.Yes():
		l.lease.Extend(sent, ttl)
	default:
		l.lease.Lose(errTaken)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease.Held() == nil {
		l.renewal.Reset(next)
	}
}
