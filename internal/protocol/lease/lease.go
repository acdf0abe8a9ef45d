// Package lease computes how long an owner may trust its claim in Redis on a session or a lock.
//
// Trust starts when the request that claimed or renewed is sent, not when the reply arrives: Redis
// cannot have started the TTL any earlier. Trust ends a tenth of the TTL before the TTL can end.
// This margin gives time to stop the work under the lease, and is larger than the drift of two
// clocks in one TTL. Time is measured on the monotonic clock, so setting the wall clock changes
// nothing.
//
// Not guaranteed: the monotonic clock continues while a signal stops the process, but on Linux it
// stops while the whole machine is suspended. After that only the next renewal, or a check of the
// fencing token, detects the loss.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrLost reports that a lease ended without a release: it was not renewed in time, or Redis had
// another owner. The cause of a [Lease]'s context wraps it, with the reason if that is known.
var ErrLost = errors.New("lock lost")

// errNotRenewed is the reason when a lease ran out.
var errNotRenewed = fmt.Errorf("%w: not renewed in time", ErrLost)

// marginDivisor makes the margin a tenth of the TTL.
const marginDivisor = 10

// Trusted is the part of a TTL during which its owner may trust it.
func Trusted(ttl time.Duration) time.Duration { return ttl - ttl/marginDivisor }

// Lease is an owner's view of how long it may trust its claim. It costs one timer and no goroutine.
// It is safe for concurrent use.
type Lease struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer
	renewed  chan struct{} // closed by the next renewal; nil: nobody waits
	over     error         // why it is over; nil while it is trusted
	blamed   error         // why the last renewal failed
}

// New makes a lease that is trusted until sent + ttl - margin. sent is time.Now() from before the
// request was sent. Call End when the claim is released.
func New(parent context.Context, sent time.Time, ttl time.Duration) *Lease {
	l := &Lease{deadline: sent.Add(Trusted(ttl))}
	l.ctx, l.cancel = context.WithCancelCause(parent)
	l.mu.Lock() // the timer may fire before it is stored
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(time.Until(l.deadline), l.expire)
	return l
}

// Context ends with the parent, with End (cause context.Canceled), and when trust ends (the cause
// wraps [ErrLost]). The end of the parent does not end the lease: cleanup may go on extending it.
func (l *Lease) Context() context.Context { return l.ctx }

// Deadline is when trust ends unless the lease is extended.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Renewed returns a channel that is closed when Deadline moves next. To miss no renewal, call it before Deadline.
func (l *Lease) Renewed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed == nil {
		l.renewed = make(chan struct{})
	}
	return l.renewed
}

// Held returns nil while the lease may be trusted. Otherwise it returns an error that wraps
// [ErrLost], or context.Canceled after End. It reads the clock itself, because the timer may not
// have fired yet in a process that was stopped and continued.
func (l *Lease) Held() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

// Extend records a renewal that succeeded; sent is time.Now() from before it was sent. It never
// shortens the lease, and does not revive a lost one.
func (l *Lease) Extend(sent time.Time, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check() != nil {
		return
	}
	// The timer stays as it is: it re-arms itself when it fires too early.
	l.blamed = nil
	if until := sent.Add(Trusted(ttl)); until.After(l.deadline) {
		l.deadline = until
		if l.renewed != nil {
			close(l.renewed)
			l.renewed = nil
		}
	}
}

// Blame records why a renewal failed. A later loss has it as its reason.
func (l *Lease) Blame(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blamed = err
}

// Lose ends trust at once, because the owner was replaced. The cause wraps ErrLost and err, which
// may be nil.
func (l *Lease) Lose(err error) {
	switch {
	case err == nil:
		err = ErrLost
	case !errors.Is(err, ErrLost):
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(err)
}

// End records that the claim was released, and stops the timer. It may be called more than once,
// and changes nothing after a loss.
func (l *Lease) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(context.Canceled)
}

// expire runs when the timer fires.
func (l *Lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.check() == nil {
		l.timer.Reset(time.Until(l.deadline))
	}
}

// check is Held under the lock.
func (l *Lease) check() error {
	if l.over == nil && !time.Now().Before(l.deadline) {
		err := errNotRenewed
		if l.blamed != nil {
			err = fmt.Errorf("%w: %w", err, l.blamed)
		}
		l.end(err)
	}
	return l.over
}

func (l *Lease) end(err error) {
	if l.over != nil {
		return
	}
	l.over = err
	l.timer.Stop()
	l.cancel(err)
}
