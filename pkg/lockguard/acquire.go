package lockguard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"turnstile/internal/redisconn"
)

// maxRecheck bounds the time after which a waiter renews its registration.
const maxRecheck = 10 * time.Minute

// Acquire takes the lock, and waits for it while another holds it: first come, first
// served. It does not poll: the holder's Release hands the lock over. A waiter asks Redis
// again only when the lock would end without a renewal, and every half TTL, which keeps
// its place in line.
//
// When ctx ends, Acquire returns at once with an error that wraps ctx.Err(), leaves the
// line, and passes on what it was given meanwhile. The lock's context is derived from ctx,
// too: bound the wait with [WithMaxWait], not with ctx.
func (g *Guard) Acquire(ctx context.Context, name string) (*Lock, error) {
	c, err := g.newClaim(ctx, name)
	if err != nil {
		return nil, err
	}
	// Only who can be notified joins the line: without a subscription look first whether
	// there is anything to wait for.
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
		default: // Redis cannot be reached: stay, it may come back
			alarm.Reset(min(q.guard.ttl/2, 20*time.Millisecond<<min(failures, 6)))
			failures++
		}
		select {
		case fence := <-q.granted:
			// A grant from before the last result is void. One from after it was given
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

// attempt is acquire, but returns when ctx ends or the guard is closed. Then inFlight is
// closed when the script has ended.
func (c *claim) attempt(ctx context.Context, channel string) (a attempt, inFlight <-chan struct{}, err error) {
	if ctx.Done() == nil && channel == "" { // nobody cancels it
		a, err = c.acquire(ctx, channel)
		return a, nil, err
	}
	ended := make(chan struct{})
	var late attempt
	var lateErr error
	go func() {
		defer close(ended)
		late, lateErr = c.acquire(ctx, channel)
	}()
	select {
	case <-ended:
		return late, nil, lateErr
	case <-ctx.Done():
		return attempt{}, ended, ctx.Err()
	case <-c.guard.line.closing:
		return attempt{}, ended, ErrClosed
	}
}

// recheck is when to ask Redis again if nothing is heard.
func (q *queued) recheck() time.Duration {
	d := min(q.guard.ttl/2, maxRecheck)
	if q.last.left >= 0 {
		// At the end of the holder's TTL, one after the other: the first takes the lock,
		// and the others learn of its holder.
		d = min(d, q.last.left+time.Duration(2+min(q.last.ahead, 100))*time.Millisecond)
	}
	return d
}

// take makes the lock, if it can still be trusted.
func (q *queued) take(fence int64, left time.Duration) *Lock {
	lock := q.lock(q.ctx, q.last.sent, fence, left)
	if time.Until(lock.Deadline()) < q.guard.ttl/renewals {
		_ = lock.Renew(q.limited) // what counts is whether it is held
	}
	if lock.Held() != nil {
		lock.discard()
		return nil
	}
	q.guard.line.part(q.token)
	return lock
}

// leave releases the place in line, or the lock if it came, in the background, and
// returns the error for the caller.
func (q *queued) leave(err error) error {
	go func() {
		defer q.guard.line.part(q.token)
		if q.inFlight != nil {
			<-q.inFlight
		}
		_, _ = q.release(q.guard.line.ctx, true) // failed: the registration expires
	}()
	if errors.Is(err, context.DeadlineExceeded) && q.ctx.Err() == nil {
		return q.held(q.last)
	}
	return fmt.Errorf("lock %q: %w", q.name, err)
}
