package lockguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// errTaken is the reason of a loss that a script found out.
var errTaken = fmt.Errorf("%w: Redis has another holder or none", ErrLost)

// errReleased is what a released lock answers.
var errReleased = fmt.Errorf("%w: it was released", ErrLost)

// Lock is a hold of a lock. Its methods may be called by several goroutines at
// once.
type Lock struct {
	claim *claim
	fence int64
	lease *Lease
	ctx   context.Context // the acquirer's

	renewing atomic.Bool
	wake     time.Time // the keeper's, as is index
	index    int

	mu     sync.Mutex
	over   bool  // released, or found lost by Release
	result error // Release's answer from then on
}

// hold makes the Lock for a claim that got it; left is how long Redis keeps it
// from sent on.
func (c *claim) hold(ctx context.Context, sent time.Time, fence int64, left time.Duration) *Lock {
	l := &Lock{claim: c, fence: fence, lease: newLease(ctx, sent, left), ctx: ctx}
	c.guard.keeper.add(l, l.nextRenewal())
	return l
}

// Name is the lock's name.
func (l *Lock) Name() string { return l.claim.name }

// Token is this hold's own: no other hold ever has the same.
func (l *Lock) Token() string { return l.claim.token }

// Fence is greater than that of every earlier hold of the lock. Whoever is
// changed under the lock refuses a fence lower than the greatest it has seen.
func (l *Lock) Fence() int64 { return l.fence }

// Context ends with a cause that wraps [ErrLost] when the lock is lost or may
// be, with cause context.Canceled when it is released, and with the context
// that it was acquired with. That last end does not release the lock and does
// not stop its renewal: what winds down is still alone.
func (l *Lock) Context() context.Context { return l.lease.Context() }

// Held answers nil while the hold may be trusted, else an error that wraps
// [ErrLost]. It asks this process's clock, not Redis.
func (l *Lock) Held() error { return notHeld(l.lease.Held()) }

// Deadline is when the lock counts as lost unless it is renewed.
func (l *Lock) Deadline() time.Time { return l.lease.Deadline() }

// Promote records that what the lock is for has begun: phase starting becomes
// running. It is also a renewal. Its error wraps [ErrLost] if the lock is not
// held any more; after another error Redis may or may not have recorded it.
func (l *Lock) Promote(ctx context.Context) error { return l.extend(ctx, Running) }

// Renew extends the hold to a full TTL from now. Only needed with
// [WithoutRenewal].
func (l *Lock) Renew(ctx context.Context) error { return l.extend(ctx, "") }

func (l *Lock) extend(ctx context.Context, phase Phase) error {
	if err := l.Held(); err != nil {
		return fmt.Errorf("lock %q: %w", l.Name(), err)
	}
	sent := time.Now()
	ours, err := l.claim.renew(ctx, phase)
	if err == nil {
		l.judge(sent, ours)
		err = l.Held()
	}
	if err != nil {
		return fmt.Errorf("lock %q: %w", l.Name(), err)
	}
	return nil
}

// judge takes in what a renewal answered.
func (l *Lock) judge(sent time.Time, ours bool) {
	if ours {
		l.lease.Extend(sent, l.claim.guard.ttl)
	} else {
		l.lease.Lose(errTaken)
	}
}

// renewNow is a renewal on the guard's own account.
func (l *Lock) renewNow() {
	defer l.renewing.Store(false)
	sent := time.Now()
	// The acquirer's end does not end the hold.
	ours, err := l.claim.renew(context.WithoutCancel(l.ctx), "")
	next := time.Now().Add(l.claim.guard.ttl / renewals / 10) // an error: again soon, until trust ends
	if err == nil {
		l.judge(sent, ours)
		next = l.nextRenewal()
	} else {
		l.lease.blame(err)
	}
	if l.lease.Held() == nil {
		l.claim.guard.keeper.wakeAt(l, next)
	}
}

// nextRenewal is when a third of a full TTL is used up; without automatic
// renewal, the lease's end.
func (l *Lock) nextRenewal() time.Time {
	ttl := l.claim.guard.ttl
	if l.claim.guard.manual {
		return l.lease.Deadline()
	}
	return l.lease.Deadline().Add(ttl/renewals - trusted(ttl))
}

// discard forgets a hold that ended before the caller saw it.
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

// Release gives the lock up, and hands it to the next waiter. It is safe to
// call more than once, and never frees another's hold. ctx's values count, its
// end does not: a cancelled caller still gives the lock up.
//
// The error wraps [ErrLost] if Redis had another holder or none: what was done
// under the lock may not have been alone. After another error (Redis cannot be
// reached) Release may be called again; if it is not, the hold ends with its
// TTL. In any case Context has ended.
func (l *Lock) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return l.result
	}
	l.end()
	freed, err := l.claim.release(context.WithoutCancel(ctx), false)
	if err != nil {
		return fmt.Errorf("release lock %q: %w", l.Name(), err)
	}
	l.over = true
	if !freed {
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
