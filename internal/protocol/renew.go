package protocol

import (
	"context"
	"slices"
	"time"

	"turnstile/pkg/session"
)

// Renewal is the result of Renew for one claim.
type Renewal struct {
	Claim     *Claim
	Err       error // wraps lease.ErrLost if another worker owns the session
	Requested error // of the turn with Fence: ErrStopRequested or another such error, or nil
	Fence     int64
	Waiting   int     // messages behind the turn
	Steer     bool    // one of them is to be steered in
	Decided   Decided // the last decision
}

// Renew extends the leases of claims, in one round trip.
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
			r.Decided = Decided{int(found.int("question")), session.Decision(found.text("decision")), found.text("by")}
			held = append(held, claims[i])
		}
		renewals[i] = r
	}
	// Reap finds most expired sentinels by the owned index. This repairs the index for a session
	// that is missing there or has too late a time: its entry failed, or a wake-up replaced it
	// after the claim. On an error the next renewal or the sweep repairs it.
	for some := range slices.Chunk(held, TimerBatch) {
		call := c.indexOwned(some)
		_, _ = call.Script.Run(ctx, c.rdb, call.Keys, call.Args...)
	}
	return renewals
}
