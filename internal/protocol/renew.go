package protocol

import (
	"context"
	"slices"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Renewal is what a renewal found.
type Renewal struct {
	Hold    *Claim
	Err     error // wraps lease.ErrLost when the session is another's
	Asked   error // ErrStopAsked, ErrInterruptAsked, ErrRollbackAsked or nil, of the turn with Fence
	Fence   int64
	Waiting int  // messages behind the turn
	Steer   bool // one of them is to be steered into it
	Reply   Decided
}

// Renew extends the sentinels of holds, in one round trip.
func (c *Consumer) Renew(ctx context.Context, holds []*Claim) []Renewal {
	sent := time.Now()
	renewals := make([]Renewal, len(holds))
	var held []*Claim
	replies := renewScript.Each(ctx, c.rdb, len(holds), func(i int) ([]string, []any) {
		h := holds[i]
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.keys[:keysToLease], []any{rediskey.For(h.session).TaskPrefix(), h.token, h.turn.Fence, c.cfg.SentinelTTL.Milliseconds()}
	})
	for i, reply := range replies {
		r := Renewal{Hold: holds[i], Err: reply.Err}
		switch {
		case r.Err != nil:
		case reply.Result.Text(0) == "lost":
			if holds[i].lost(errLostToAnother) {
				r.Err = errLostToAnother
			}
		default:
			holds[i].lease.Extend(sent, c.cfg.SentinelTTL)
			holds[i].wasRenewed(reply.Result.Int(7), reply.Result.Int(1))
			r.Fence, r.Asked, r.Waiting = reply.Result.Int(1), asked(reply.Result.Text(2)), int(reply.Result.Int(3))
			r.Steer = reply.Result.Int(4) == 1
			r.Reply = Decided{int(reply.Result.Int(5)), session.Decision(reply.Result.Text(6))}
			held = append(held, holds[i])
		}
		renewals[i] = r
	}
	// Reap follows the sentinels by itself; this is for a session that it does not know
	// of, or is to look at too late: its entry failed, or a wake-up of a claim that had
	// come already has replaced it. On an error the next renewal, or a sweep, puts it
	// right.
	for some := range slices.Chunk(held, TimerBatch) {
		call := c.lookAfter(some)
		_, _ = lookAfterScript.Run(ctx, c.rdb, call.Keys, append(call.Shared, call.Args...)...)
	}
	return renewals
}
