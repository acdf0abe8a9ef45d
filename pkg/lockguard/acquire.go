package lockguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile/internal/redisconn"
)

// maxRecheck bounds the time after which a waiter renews its place in line.
const maxRecheck = 10 * time.Minute

// Acquire takes the lock. While another holds it, Acquire waits in line: first come, first served.
// It does not poll: the holder's Release hands the lock over. A waiter sends a command only when
// the lock would expire without a renewal, and every half TTL, to keep its place.
//
// When ctx ends, Acquire returns at once with an error that wraps ctx.Err() and leaves the line. If
// it gets the lock after that, it passes the lock on. The lock's context is derived from ctx, so a
// timeout of ctx would end the lock too: bound the wait with [WithMaxWait].
//
// The error wraps [ErrName] for a name that is not allowed, [ErrHeld] after WithMaxWait, and
// [ErrClosed] if the guard was closed.
func (g *Guard) Acquire(ctx context.Context, name string) (*Lock, error) {
	c, err := g.newClaim(ctx, name)
	if err != nil {
		return nil, err
	}
	// A waiter needs the subscription. If there is none yet, try first whether the lock is free.
	if !g.line.subscribed() {
		a, inFlight, err := c.attempt(ctx, "")
		switch {
		case inFlight != nil:
			g.line.spawn(func(ctx context.Context) {
				<-inFlight
				_, _ = c.release(ctx, false)
			})
			return nil, fmt.Errorf("lock %q: %w", name, err)
		case err != nil || a.ours:
			return c.tried(ctx, a, err)
		}
	}
	limited := ctx
	if g.maxWait > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, g.maxWait)
		defer cancel()
	}
	w, err := g.line.join(limited, c.token)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", name, err)
	}
	q := queued{claim: c, waiter: w, ctx: ctx, limited: limited}
	return q.acquire()
}

// queued is a claim in the line.
type queued struct {
	*claim
	*waiter
	ctx      context.Context // the caller's
	limited  context.Context // the same, with the limit on the wait
	last     attempt         // the last one that returned
	inFlight <-chan struct{} // closed when an abandoned script has ended
}

func (q *queued) acquire() (*Lock, error) {
	alarm := time.NewTimer(maxRecheck)
	defer alarm.Stop()
	failures := 0
	for {
		a, inFlight, err := q.attempt(q.limited, q.guard.line.channel)
		q.inFlight = inFlight
		if err == nil {
			q.last = a
		}
		switch {
		case err == nil && q.last.ours:
			if lock := q.take(q.last.fence, q.last.left); lock != nil {
				return lock, nil
			}
			continue
		case err == nil:
			failures = 0
			alarm.Reset(q.recheck())
		case redisconn.Refused(err) || q.limited.Err() != nil:
			return nil, q.leave(err)
		default: // Redis cannot be reached: keep waiting
			alarm.Reset(min(q.guard.ttl/2, 20*time.Millisecond<<min(failures, 6)))
			failures++
		}
		select {
		case fence := <-q.granted:
			// A grant with a fencing token up to the last result's is void. A later one was given
			// after that script was sent, and lasts at least a TTL from then.
			if err == nil && fence > q.last.fence {
				if lock := q.take(fence, q.guard.ttl); lock != nil {
					return lock, nil
				}
			}
		case <-q.again:
		case <-alarm.C:
		case <-q.limited.Done():
			return nil, q.leave(q.limited.Err())
		case <-q.guard.line.closing:
			return nil, q.leave(ErrClosed)
		}
	}
}

// attempt is acquire that returns early when ctx ends or the guard is closed. In that case inFlight
// is closed when the script has ended.
func (c *claim) attempt(ctx context.Context, channel string) (a attempt, inFlight <-chan struct{}, err error) {
	if ctx.Done() == nil && channel == "" { // it cannot be cancelled
		a, err = c.acquire(ctx, channel)
		return a, nil, err
	}
	ended := make(chan struct{})
	var result attempt
	var failed error
	go func() {
		defer close(ended)
		result, failed = c.acquire(ctx, channel)
	}()
	select {
	case <-ended:
		return result, nil, failed
	case <-ctx.Done():
		return attempt{}, ended, ctx.Err()
	case <-c.guard.line.closing:
		return attempt{}, ended, ErrClosed
	}
}

// recheck returns when to ask Redis again if there is no grant.
func (q *queued) recheck() time.Duration {
	d := min(q.guard.ttl/2, maxRecheck)
	if q.last.left >= 0 {
		// When the holder's TTL ends, the waiters ask one after the other: the first takes the
		// lock, and the others see its new holder.
		d = min(d, q.last.left+time.Duration(2+min(q.last.ahead, 100))*time.Millisecond)
	}
	return d
}

// take returns the lock, or nil if it cannot be trusted any more.
func (q *queued) take(fence int64, left time.Duration) *Lock {
	lock := q.lock(q.ctx, q.last.sent, fence, left)
	if time.Until(lock.Deadline()) < q.guard.ttl/renewals {
		_ = lock.Renew(q.limited) // Held reports the result
	}
	if lock.Held() != nil {
		lock.discard()
		return nil
	}
	q.guard.line.part(q.token)
	return lock
}

// leave releases the place in line, or the lock if it came, in the background. It returns the error
// for the caller.
func (q *queued) leave(err error) error {
	go func() {
		defer q.guard.line.part(q.token)
		if q.inFlight != nil {
			<-q.inFlight
		}
		_, _ = q.release(q.guard.line.ctx, true) // if it fails, the place expires
	}()
	if errors.Is(err, context.DeadlineExceeded) && q.ctx.Err() == nil {
		return q.held(q.last)
	}
	return fmt.Errorf("lock %q: %w", q.name, err)
}
