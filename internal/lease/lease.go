// Package lease tells an owner for how long it may trust what it owns in Redis: a
// session, or a lock.
//
// Trust starts before the request that claimed or renewed it was sent, not when the reply
// came: Redis cannot have started the TTL any earlier. It ends a margin, a tenth of the
// TTL, before the TTL can end. That is time to stop what runs under the lease, and more
// than two clocks drift apart in one TTL. It is measured on the monotonic clock, so
// setting the wall clock changes nothing.
//
// What is not guaranteed: the monotonic clock goes on while a process is stopped by a
// signal, but on Linux not while the whole machine is suspended. After that the next
// renewal, or whoever checks the fencing token, finds out.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrLost says that a lease ended without being released: it was not renewed in time, or
// Redis had another owner. It is the cause of a [Lease]'s context, and is wrapped with
// what is known of the reason.
var ErrLost = errors.New("lock lost")

// errNotRenewed is the reason of a lease that ran out.
var errNotRenewed = fmt.Errorf("%w: not renewed in time", ErrLost)

// marginDivisor makes the margin a tenth of the TTL.
const marginDivisor = 10

// Trusted is the part of a TTL that counts.
func Trusted(ttl time.Duration) time.Duration { return ttl - ttl/marginDivisor }

// Lease is an owner's own view of how long it may trust what it owns. It costs one timer
// and no goroutine. Its methods may be called by several goroutines at once.
type Lease struct {
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer // nil: somebody else calls Held in time
	over     error       // why it is over; nil while it is trusted
	blamed   error       // why the last renewal failed
}

// New makes a lease that is trusted until sent + ttl - margin. sent is time.Now() from
// before the request was sent. End must be called when what is owned is released.
func New(parent context.Context, sent time.Time, ttl time.Duration) *Lease {
	l := &Lease{}
	l.InitUntimed(parent, sent, ttl)
	l.mu.Lock() // the timer may fire before it is stored
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(time.Until(l.deadline), l.expire)
	return l
}

// InitUntimed makes l, which is zero, a lease without a timer: its owner calls Held at
// the Deadline.
func (l *Lease) InitUntimed(parent context.Context, sent time.Time, ttl time.Duration) {
	l.deadline = sent.Add(Trusted(ttl))
	l.ctx, l.cancel = context.WithCancelCause(parent)
}

// Context ends when trust does, with a cause that wraps [ErrLost]; with End, with the
// cause context.Canceled; and with the parent. The parent's end does not end the lease:
// what winds down under it may go on extending it.
func (l *Lease) Context() context.Context { return l.ctx }

// Deadline is when trust ends unless the lease is extended.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Held returns nil while the lease may be trusted. It reads the clock itself: in a process
// that was stopped and goes on, the timer may not have fired yet. Otherwise it returns the
// cause of Context: an error that wraps [ErrLost], or context.Canceled after End.
func (l *Lease) Held() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check()
}

// Extend records a renewal that succeeded; sent is time.Now() from before it was sent. It
// never shortens the lease and does not revive one that is over.
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
	}
}

// Blame records why a renewal failed: the reason of a later loss.
func (l *Lease) Blame(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blamed = err
}

// Lose ends trust at once: the owner found out that it is not the owner any more. The
// cause wraps ErrLost and err, which may be nil.
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

// End says that what is owned was released, and frees the lease's timer. It may be called
// more than once, and changes nothing after a loss.
func (l *Lease) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(context.Canceled)
}

// expire is the timer's call.
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
	if l.timer != nil {
		l.timer.Stop()
	}
	l.cancel(err)
}
