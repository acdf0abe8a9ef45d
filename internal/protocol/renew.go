package protocol

import (
	"context"
	"slices"
	"time"

	"turnstile/pkg/session"
)

// Renewal is what a renewal found.
type Renewal struct {
	Claim     *Claim
	Err       error // wraps lease.ErrLost when the session is another's
	Requested error // ErrStopAsked, ErrInterruptAsked, ErrRollbackAsked or nil, of the turn with Fence
	Fence     int64
	Waiting   int  // messages behind the turn
	Steer     bool // one of them is to be steered into it
	Decided   Decided
}

// Renew extends the sentinels of holds, in one round trip.
func (c *Consumer) Renew(ctx context.Context, claims []*Claim) []Renewal {
	sent := time.Now()
	renewals := make([]Renewal, len(claims))
	var held []*Claim
	calls := renewMove.Each(ctx, c.rdb, len(claims), func(i int) ([]string, []any) {
		claim := claims[i]
		claim.mu.Lock()
		defer claim.mu.Unlock()
		return renewMove.keys(claim.keys), renewMove.args("token", claim.token, "fence", claim.turn.Fence, "ttl", c.cfg.SentinelTTL.Milliseconds())
	})
	for i, call := range calls {
		r, found := Renewal{Claim: claims[i], Err: call.Err}, renewMove.returned(call.Result)
		switch {
		case r.Err != nil:
		case found.status() == "lost":
			if claims[i].lost(errLostToAnother) {
				r.Err = errLostToAnother
			}
		default:
			claims[i].lease.Extend(sent, c.cfg.SentinelTTL)
			claims[i].wasRenewed(found.int("now"), found.int("fence"))
			r.Fence, r.Requested, r.Waiting = found.int("fence"), requested(found.text("request")), int(found.int("waiting"))
			r.Steer = found.is("steer")
			r.Decided = Decided{int(found.int("question")), session.Decision(found.text("decision"))}
			held = append(held, claims[i])
		}
		renewals[i] = r
	}
	// Reap follows the sentinels by itself; this is for a session that it does not know
	// of, or is to look at too late: its entry failed, or a wake-up of a claim that had
	// come already has replaced it. On an error the next renewal, or a sweep, puts it
	// right.
	for some := range slices.Chunk(held, TimerBatch) {
		call := c.indexOwned(some)
		_, _ = call.Script.Run(ctx, c.rdb, call.Keys, call.Args...)
	}
	return renewals
}
