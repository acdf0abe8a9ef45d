package protocol

import (
	"context"
	"slices"
	"time"

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
	calls := renewMove.Each(ctx, c.rdb, len(holds), func(i int) ([]string, []any) {
		h := holds[i]
		h.mu.Lock()
		defer h.mu.Unlock()
		return renewMove.keys(h.keys), renewMove.args("token", h.token, "fence", h.turn.Fence, "ttl", c.cfg.SentinelTTL.Milliseconds())
	})
	for i, call := range calls {
		r, found := Renewal{Hold: holds[i], Err: call.Err}, renewMove.returned(call.Result)
		switch {
		case r.Err != nil:
		case found.status() == "lost":
			if holds[i].lost(errLostToAnother) {
				r.Err = errLostToAnother
			}
		default:
			holds[i].lease.Extend(sent, c.cfg.SentinelTTL)
			holds[i].wasRenewed(found.int("now"), found.int("fence"))
			r.Fence, r.Asked, r.Waiting = found.int("fence"), requested(found.text("request")), int(found.int("waiting"))
			r.Steer = found.is("steer")
			r.Reply = Decided{int(found.int("question")), session.Decision(found.text("decision"))}
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
		_, _ = call.Script.Run(ctx, c.rdb, call.Keys, call.Args...)
	}
	return renewals
}
