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

//go:embed grant.lua
var grantLua string

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
	// The fast path comes first, and returns before the rest is defined.
	acquireScript = newScript("acquire", func() string { return takeLua + script.Prelude() + grantLua + lineLua + acquireLua })
	releaseScript = newScript("release", func() string { return freeLua + script.Prelude() + grantLua + lineLua + releaseLua })
	renewScript   = newScript("renew", func() string { return script.Prelude() + renewLua })
	holderScript  = newScript("holder", func() string { return holderLua })
)

func newScript(name string, source func() string) *script.Script {
	return script.New("lock "+name, source)
}

// How many of a lock's keys a script gets. The first line of each script names them in the order of
// keysOf.
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

// What acquire.lua and holder.lua return, as their headers name it.
var (
	acquireFields = []string{"fence", "left", "owner", "since", "place", "ahead"}
	holderFields  = []string{"fence", "left", "owner", "since", "waiting"}
)

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
		r, err = g.batcher.Run(ctx, acquireScript, c.keys[:keysToWaiting], c.arg, g.ownerArg, g.ttlArg, g.recordTTLArg)
	} else {
		r, err = acquireScript.Run(ctx, g.client, c.keys[:keysToWaiting],
			c.arg, g.ownerArg, g.ttlArg, g.recordTTLArg, channel, g.countedArg, c.place)
	}
	if err != nil {
		return a, err
	}
	f := r.Named(acquireFields...)
	a.fence = f.Int("fence")
	a.ours = !f.Has("owner")
	if a.ours && a.fence == 0 {
		return a, fmt.Errorf("%w: acquire returned %v", errResult, r)
	}
	a.left = g.ttl
	if f.Has("left") {
		a.left = f.Millis("left")
	}
	if a.ours && a.left < 0 { // another program has removed the TTL; a renewal sets it again
		a.left = g.ttl
	}
	if !a.ours {
		a.other = holderOf(f)
		c.place, a.ahead = f.Int("place"), f.Int("ahead")
	}
	return a, nil
}

// holderOf decodes the fields about the holder.
func holderOf(f script.Fields) Holder {
	h := Holder{Fence: f.Int("fence"), Left: f.Millis("left"), Owner: f.Text("owner")}
	if since := f.Int("since"); since > 0 { // us
		h.Since = time.UnixMicro(since)
	}
	return h
}

// release frees the lock or leaves the line. It returns false if the token did not have the lock.
func (c *claim) release(ctx context.Context, waited bool) (bool, error) {
	mayWait := "0"
	if waited {
		mayWait = "1"
	}
	r, err := c.guard.batcher.Run(ctx, releaseScript, c.keys[:], c.arg, mayWait)
	return r.Yes(), err
}

// renew renews the lease. It returns false if the token does not have the lock.
func (c *claim) renew(ctx context.Context) (bool, error) {
	g := c.guard
	r, err := renewScript.Run(ctx, g.client, c.keys[:keysToRun], c.arg, g.ttlArg, g.recordTTLArg)
	return r.Yes(), err
}
