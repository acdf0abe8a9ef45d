package lockguard

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
)

//go:embed lock.lua
var lockLua string

var lockScript = script.New("lock", lockLua)

// claim is one token's attempt to get one lock, and then its possession.
type claim struct {
	guard *Guard
	name  string
	token string
	keys  [5]string
}

func (g *Guard) claim(ctx context.Context, name string) (*claim, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	k := rediskey.ForLock(name)
	c := &claim{
		guard: g, name: name, token: g.id + "." + strconv.FormatUint(g.tokens.Add(1), 36),
		keys: [5]string{k.Sentinel(), k.Run(), k.Waiters(), k.Waiting(), k.Released()},
	}
	return c, c.failed(ctx.Err())
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || strings.ContainsAny(name, "{}") {
		return fmt.Errorf("%w: %.100q", ErrInvalid, name)
	}
	if _, session := rediskey.SessionOf(name); session {
		return fmt.Errorf("%w: %.100q is a session's", ErrInvalid, name)
	}
	return nil
}

// failed adds the lock's name to an error.
func (c *claim) failed(err error) error {
	if err != nil {
		err = fmt.Errorf("lock %q: %w", c.name, err)
	}
	return err
}

// acquire calls the script once. It returns the lock, or with a nil lock the fields about its holder.
// The arguments in line make it wait in line.
func (c *claim) acquire(ctx context.Context, line ...any) (lock *Lock, f script.Fields, err error) {
	g, sent := c.guard, time.Now()
	args := append([]any{"acquire", c.token, g.ttl.Milliseconds(), g.owner}, line...)
	r, err := g.batcher.Run(ctx, lockScript, c.keys[:], args...)
	if err == nil && len(r) == 1 {
		lock = c.lock(ctx, sent, r.Int(0))
	}
	return lock, r.Named("holder", "run", "left", "place", "ahead"), err
}

// wait takes the lock, in line if it is not free. After an error the claim may still be in line, or
// have the lock.
func (c *claim) wait(ctx context.Context) (*Lock, error) {
	g := c.guard
	if !g.line.subscribed() { // a waiter needs the subscription: try first whether the lock is free
		if lock, _, err := c.acquire(ctx); err != nil || lock != nil {
			return lock, err
		}
	}
	heard := g.line.join(c.token)
	defer g.line.part(c.token)
	alarm := time.NewTimer(g.ttl / 2)
	defer alarm.Stop()
	var sent time.Time // the last call
	var place, last int64
	for {
		select {
		case n := <-heard:
			if n.err != nil {
				return nil, n.err
			}
			// A grant with a fencing token up to the last result's is void. A later one was given after
			// that call was sent, and lasts a TTL from then at least.
			if n.fence > last && time.Since(sent) < g.ttl/2 {
				return c.lock(ctx, sent, n.fence), nil
			}
		case <-alarm.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		var lock *Lock
		var f script.Fields
		err := script.Repeat(ctx, func() (err error) {
			sent = time.Now()
			lock, f, err = c.acquire(ctx, g.line.channel, g.counted, place)
			return err
		})
		if err != nil || lock != nil {
			return lock, err
		}
		var h Holder
		h, last = holderOf(f)
		place = f.Int("place")
		again := g.ttl / 2 // keeps the place
		if h.Left >= 0 {
			// When the holder's TTL ends, the waiters ask one after the other: the first takes the lock,
			// and the others see its new holder.
			again = min(again, h.Left+time.Duration(2+min(f.Int("ahead"), 100))*time.Millisecond)
		}
		alarm.Reset(again)
	}
}

// release frees the lock or leaves the line. It returns false if the token did not have the lock.
func (c *claim) release(ctx context.Context) (bool, error) {
	r, err := c.guard.batcher.Run(context.WithoutCancel(ctx), lockScript, c.keys[:], "release", c.token)
	return r.Yes(), err
}

// giveUp releases the lock or the place in line that the claim may have without knowing it.
func (c *claim) giveUp(ctx context.Context) { _, _ = c.release(ctx) } // after an error both expire
