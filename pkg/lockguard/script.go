package lockguard

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
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
	// The usual case stands first, and returns before the rest is set up.
	acquireScript = newScript(takeLua + prelude + holdLua + lineLua + acquireLua)
	releaseScript = newScript(freeLua + prelude + holdLua + lineLua + releaseLua)
	renewScript   = newScript(prelude + renewLua)
	holderScript  = newScript(holderLua)
)

// script is a redis.Script whose callers have their arguments boxed already:
// that halves what a call allocates.
type script struct {
	*redis.Script
	hash, text any
}

func newScript(text string) *script {
	s := redis.NewScript(text)
	return &script{Script: s, hash: s.Hash(), text: text}
}

// run calls the script with args, of which the first keys are its KEYS.
func (s *script) run(ctx context.Context, send sender, keys int, args ...any) *redis.Cmd {
	words := make([]any, 0, 3+len(args))
	words = append(append(words, "evalsha", s.hash, keys), args...)
	cmd := redis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(3)
	send(ctx, cmd)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		words[0], words[1] = "eval", s.text
		cmd = redis.NewCmd(ctx, words...)
		cmd.SetFirstKeyPos(3)
		send(ctx, cmd)
	}
	return cmd
}

// sender carries out a command; the command has the error.
type sender func(ctx context.Context, cmd *redis.Cmd)

// direct sends a command by itself.
func (g *Guard) direct(ctx context.Context, cmd *redis.Cmd) { _ = g.client.Process(ctx, cmd) }

// claim is one token's way to one lock: what its scripts need.
type claim struct {
	guard *Guard
	name  string
	token string
	keys  lockKeys
	place int64 // in the line, 0 before it was given one
}

// lockKeys are the keys of a lock, boxed.
type lockKeys struct{ sentinel, run, waiters, waiting, released any }

func keysOf(name string) lockKeys {
	keys := rediskey.ForLock(name)
	return lockKeys{keys.Sentinel(), keys.Run(), keys.Waiters(), keys.Waiting(), keys.Released()}
}

// answer is what acquire says.
type answer struct {
	sent  time.Time // from before the script was sent
	ours  bool
	fence int64
	left  time.Duration // of whoever's hold it is
	ahead int64         // waiters before this one
	other Holder        // when it is not ours
}

// acquire runs the script once. With a channel it joins the line when the lock
// is taken.
func (c *claim) acquire(ctx context.Context, channel string) (answer, error) {
	g := c.guard
	ans := answer{sent: time.Now()}
	k := &c.keys
	var cmd *redis.Cmd
	if channel == "" {
		cmd = acquireScript.run(ctx, g.combiner.Process, 4, k.sentinel, k.run, k.waiters, k.waiting,
			c.token, g.ownerArg, g.ttlArg, g.keepArg)
	} else {
		cmd = acquireScript.run(ctx, g.direct, 4, k.sentinel, k.run, k.waiters, k.waiting,
			c.token, g.ownerArg, g.ttlArg, g.keepArg, channel, g.countedArg, c.place)
	}
	reply, err := cmd.Result()
	if err != nil {
		return ans, err
	}
	values, isArray := reply.([]any)
	if !isArray { // the fence alone
		values = []any{reply}
	}
	fields := fields{values: values}
	ans.fence = fields.number(0)
	ans.ours = len(values) <= 2
	ans.left = g.ttl
	if len(values) >= 2 {
		ans.left = time.Duration(fields.number(1)) * time.Millisecond
	}
	if ans.ours && ans.left < 0 { // somebody took the TTL away; a renewal sets it again
		ans.left = g.ttl
	}
	if !ans.ours {
		ans.other = fields.holder(0)
		c.place = fields.number(5)
		ans.ahead = fields.number(6)
	}
	return ans, fields.err
}

// release frees the lock or leaves the line; false: the token did not hold it.
func (c *claim) release(ctx context.Context, waited bool) (bool, error) {
	flag := "0"
	if waited {
		flag = "1"
	}
	k := &c.keys
	n, err := releaseScript.run(ctx, c.guard.combiner.Process, 5, k.sentinel, k.run, k.waiters, k.waiting, k.released,
		c.token, flag).Int64()
	return n == 1, err
}

// renew extends the hold; false: the token does not hold the lock.
func (c *claim) renew(ctx context.Context, phase Phase) (bool, error) {
	g := c.guard
	n, err := renewScript.run(ctx, g.direct, 2, c.keys.sentinel, c.keys.run,
		c.token, g.ttlArg, g.keepArg, string(phase)).Int64()
	return n == 1, err
}

// fields reads a script's answer; the first field that is not what it should be
// is kept as the error.
type fields struct {
	values []any
	err    error
}

// holder reads fence, ms left, owner, since and phase from at on.
func (f *fields) holder(at int) Holder {
	h := Holder{
		Fence: f.number(at),
		Left:  time.Duration(f.number(at+1)) * time.Millisecond,
		Owner: f.text(at + 2),
		Phase: Phase(f.text(at + 4)),
	}
	if f.text(at+3) != "" {
		h.Since = time.UnixMicro(f.number(at + 3))
	}
	return h
}

func (f *fields) text(at int) string {
	if at < len(f.values) {
		if s, ok := f.values[at].(string); ok {
			return s
		}
	}
	f.fail(at)
	return ""
}

func (f *fields) number(at int) int64 {
	if at < len(f.values) {
		switch v := f.values[at].(type) {
		case int64:
			return v
		case string:
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				return n
			}
		}
	}
	f.fail(at)
	return 0
}

func (f *fields) fail(at int) {
	if f.err == nil {
		f.err = fmt.Errorf("script answered %v: field %d is not as expected", f.values, at)
	}
}
