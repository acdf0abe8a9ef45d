package lockguard

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

//go:embed hold.lua
var holdLua string

//go:embed take.lua
var takeLua string

//go:embed line.lua
var lineLua string

//go:embed acquire.lua
var acquireLua string

//go:embed free.lua
var freeLua string

//go:embed release.lua
var releaseLua string

//go:embed renew.lua
var renewLua string

//go:embed holder.lua
var holderLua string

var (
	// The common case comes first, and returns before the rest is set up.
	acquireScript = newScript("acquire", func() string { return takeLua + script.Prelude() + holdLua + lineLua + acquireLua })
	releaseScript = newScript("release", func() string { return freeLua + script.Prelude() + holdLua + lineLua + releaseLua })
	renewScript   = newScript("renew", func() string { return script.Prelude() + renewLua })
	holderScript  = newScript("holder", func() string { return holderLua })
)

func newScript(name string, source func() string) *script.Script {
	return script.New("lock "+name, source)
}

// How many of a lock's keys a script gets, in the order of keysOf.
const (
	keysToRun     = 2
	keysToWaiters = 3
	keysToWaiting = 4
)

// keysOf returns the KEYS of a lock's scripts.
func keysOf(name string) [5]string {
	k := rediskey.ForLock(name)
	return [5]string{k.Sentinel(), k.Run(), k.Waiters(), k.Waiting(), k.Released()}
}

// claim is one token's attempt to get one lock, and then its possession.
type claim struct {
	guard *Guard
	name  string
	token string
	arg   any // the token, as every script's first argument
	keys  [5]string
	place int64 // in line; 0 before it has one
}

// attempt is the result of acquire.lua.
type attempt struct {
	sent  time.Time // just before the script was sent
	ours  bool
	fence int64
	left  time.Duration // of the lock's TTL, whoever holds it
	ahead int64         // waiters before this one
	other Holder        // if it is not ours
}

// errResult: a script returned something other than its header says.
var errResult = errors.New("unexpected result of a script")

// acquire runs the script once. With a channel it joins the line if the lock is not free.
func (c *claim) acquire(ctx context.Context, channel string) (attempt, error) {
	g := c.guard
	a := attempt{sent: time.Now()}
	var r script.Result
	var err error
	if channel == "" {
		r, err = g.batcher.Run(ctx, acquireScript, c.keys[:keysToWaiting], c.arg, g.ownerArg, g.ttlArg, g.keepArg)
	} else {
		r, err = acquireScript.Run(ctx, g.client, c.keys[:keysToWaiting],
			c.arg, g.ownerArg, g.ttlArg, g.keepArg, channel, g.countedArg, c.place)
	}
	if err != nil {
		return a, err
	}
	a.fence = r.Int(0)
	a.ours = len(r) <= 2
	if a.ours && a.fence == 0 {
		return a, fmt.Errorf("%w: acquire returned %v", errResult, r)
	}
	a.left = g.ttl
	if len(r) >= 2 {
		a.left = r.Millis(1)
	}
	if a.ours && a.left < 0 { // another program has removed the TTL; a renewal sets it again
		a.left = g.ttl
	}
	if !a.ours {
		a.other = holderOf(r)
		c.place, a.ahead = r.Int(4), r.Int(5)
	}
	return a, nil
}

// holderOf decodes {fence, ms left, owner, since us}.
func holderOf(r script.Result) Holder {
	h := Holder{Fence: r.Int(0), Left: r.Millis(1), Owner: r.Text(2)}
	if since := r.Int(3); since > 0 {
		h.Since = time.UnixMicro(since)
	}
	return h
}

// release frees the lock or leaves the line. It returns false if the token did not have the lock.
func (c *claim) release(ctx context.Context, waited bool) (bool, error) {
	flag := "0"
	if waited {
		flag = "1"
	}
	r, err := c.guard.batcher.Run(ctx, releaseScript, c.keys[:], c.arg, flag)
	return r.Bool(0), err
}

// renew renews the lease. It returns false if the token does not have the lock.
func (c *claim) renew(ctx context.Context) (bool, error) {
	g := c.guard
	r, err := renewScript.Run(ctx, g.client, c.keys[:keysToRun], c.arg, g.ttlArg, g.keepArg)
	return r.Bool(0), err
}
