package protocol

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/lease"
	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// Claim takes the sentinels and next messages of sessions, in one round trip, and
// one more if there is something out of the ordinary about any of them.
// Those that are held by others, paused or empty are left out; those that have
// to wait go into the due index. The holds last while parent does and they are
// renewed. On an error, the sessions without a hold are put back, but for those that
// Redis refuses to look at (ErrBroken): reap finds them in time. Call TakeBack then:
// Redis may have carried out a claim whose reply was lost.
func (c *Consumer) Claim(parent context.Context, sessions []string) ([]*Claim, error) {
	sent := time.Now()
	attempts := make([]*Claim, len(sessions))
	for i, s := range sessions {
		attempts[i] = &Claim{
			consumer: c, session: s, token: rand.Text(), prefix: rediskey.IDPrefix(s), keys: Keys(s, "", sent),
			claimedBy: sent.Add(2 * c.cfg.SentinelTTL),
		}
	}
	var claims, special []*Claim
	var waiting []WakeUp
	var failed error
	var again []string
	settle := func(m *move, attempts []*Claim, calls []*script.Call) {
		for i, call := range calls {
			claim := attempts[i]
			if call.Err != nil {
				err := fmt.Errorf("claim %s: %w", claim.session, call.Err)
				if broken(call.Err) {
					err = fmt.Errorf("%w: %w", ErrBroken, err)
				} else {
					again = append(again, claim.session)
				}
				if mayHaveClaimed(call.Err) {
					c.addUnheard(claim)
				}
				failed = errors.Join(failed, err)
				continue
			}
			r := m.returned(call.Result)
			switch r.status() {
			case "special":
				special = append(special, claim)
			case "turn":
				claim.lease = lease.New(parent, sent, c.cfg.SentinelTTL)
				claim.begin(sent, r)
				claim.turn.Reset = r.text("reset")
				if reason := r.text("resume"); reason != "" {
					claim.turn.Resume, claim.turn.ResumeAge = reason, r.ms("mark_age")
				}
				claims = append(claims, claim)
			case "wait":
				waiting = append(waiting, WakeUp{claim.session, r.int("at")})
			case "again":
				again = append(again, claim.session)
			}
		}
	}
	calls, err := c.claimFast(parent, attempts)
	if err != nil {
		failed = fmt.Errorf("have sessions looked after that are to be claimed: %w", err)
	}
	if calls == nil && err != nil {
		_ = c.PutBack(parent, sessions) // else reap finds them
		return nil, failed
	}
	settle(claimFast, attempts, calls)
	if rest := special; len(rest) > 0 {
		// It may be the first script that has set the sentinel, and its reply was lost:
		// the lease counts from before that one.
		settle(claimMove, rest, claimMove.Each(parent, c.rdb, len(rest), func(i int) ([]string, []any) {
			return claimMove.keys(rest[i].keys), rest[i].claimArgs()
		}))
	}
	if len(waiting) > 0 {
		if err := Wake(parent, c.rdb, 0, 0, waiting...); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	if len(again) > 0 {
		_ = c.PutBack(parent, again) // if Redis is away it fails as well
	}
	return claims, failed
}

// ErrBroken is wrapped by Claim's error about a session of which Redis refuses to
// read or write a key: one of a wrong type, say. It is that session's alone.
var ErrBroken = errors.New("the session is broken")

// broken reports whether an error is about the keys that a script was given.
func broken(err error) bool {
	return redisconn.Refused(err) && (redis.HasErrorPrefix(err, "WRONGTYPE") || strings.HasPrefix(err.Error(), "ERR "))
}

// claimPairs are what both paths of a claim get of the worker.
func (c *Consumer) claimPairs() []any {
	line := c.cfg.Line
	return []any{
		"ttl", c.cfg.SentinelTTL.Milliseconds(), "worker", c.cfg.Worker, "phase", c.phase(), "mode", string(line.Mode), "cap", line.Cap,
		"drop", string(line.Drop), "debounce", time.Duration(line.Debounce).Milliseconds(), "warm", flag(c.cfg.Warm), "longest", c.cfg.Limits.Task(),
	}
}

func (c *Claim) claimArgs() []any {
	consumer := c.consumer
	return claimMove.args(append(append(consumer.claimPairs(), consumer.events...),
		"stuck_limit", consumer.cfg.StuckLimit, "retention", int64(consumer.cfg.Retention/time.Second),
		"crash_suspends", consumer.cfg.CrashPolicy == CrashSuspend, "stop_batch", stopBatch, "turn_limits", consumer.cfg.turnLimits(),
		"task", rediskey.For(c.session).TaskPrefix(), "token", c.token, "fresh_sid", newSessionID(), "prefix", c.prefix,
	)...)
}

// turnLimits are the most messages and bytes that a turn has, as scripts take them.
func (c Config) turnLimits() string { return fmt.Sprint(c.TurnMessages, c.TurnBytes) }

// claimFast sends the fast path of claims, in one round trip. A claim that returns special
// has done nothing: the full path is to be sent. Senders have reap look at a session after ClaimGrace: a shorter lease is to be looked after sooner, and
// that is known before there is one. An error is about that; without replies nothing was
// claimed.
func (c *Consumer) claimFast(ctx context.Context, attempts []*Claim) ([]*script.Call, error) {
	calls := make([]*script.Call, len(attempts))
	for i, claim := range attempts {
		calls[i] = &script.Call{
			Script: claimFast.Script, Shared: c.claimShared, Keys: claimFast.keys(claim.keys),
			Args: claimFast.each("task", rediskey.For(claim.session).TaskPrefix(), "token", claim.token, "fresh_sid", newSessionID()),
		}
	}
	var first []*script.Call
	if c.cfg.SentinelTTL < ClaimGrace {
		for some := range slices.Chunk(attempts, TimerBatch) {
			first = append(first, c.indexOwned(some))
		}
	}
	sent := c.moves.DoAfter(ctx, first, calls)
	var failed error
	for _, call := range first {
		failed = errors.Join(failed, call.Err)
	}
	if !sent {
		return nil, failed
	}
	return calls, failed
}
