package protocol

import (
	"context"
	"slices"
	"time"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Renewal is the result of Renew for one claim.
type Renewal struct {
	Claim     *Claim
	Err       error // wraps lease.ErrLost if another worker owns the session
	Requested error // request to the turn with Fence: ErrStopRequested or another such error, or nil
	Fence     int64
	Waiting   int     // waiting messages
	Steer     bool    // one of them is to be steered in
	Decided   Decided // the last decision
}

// Renew extends the leases of claims, in one round trip.
func (c *Consumer) Renew(ctx context.Context, claims []*Claim) []Renewal {
	sent := time.Now()
	renewals := make([]Renewal, len(claims))
	var held []*Claim
	calls := scripts.Renew.Each(ctx, c.rdb, len(claims), func(i int) ([]string, scripts.RenewArgs) {
		k, o := claims[i].owner()
		return scripts.RenewKeys(k), scripts.RenewArgs{Owner: o, TTL: c.ttl()}
	})
	for i, call := range calls {
		r, found := Renewal{Claim: claims[i], Err: call.Err}, scripts.Renew.Result(call)
		switch {
		case r.Err != nil:
		case found.Status == scripts.Lost:
			if claims[i].lost(errLostToAnother) {
				r.Err = errLostToAnother
			}
		default:
			claims[i].lease.Extend(sent, c.cfg.SentinelTTL)
			claims[i].wasRenewed(found.Now, found.Fence)
			r.Fence, r.Requested, r.Waiting = found.Fence, requested(found.Request), int(found.Waiting)
			r.Steer = found.Steer
			r.Decided = Decided{int(found.Question), session.Decision(found.Decision), found.By}
			held = append(held, claims[i])
		}
		renewals[i] = r
	}
	// Reap finds most expired sentinels by the owned index. Repair the index where a session is
	// missing or has too late a time: its entry failed, or a wake-up replaced it after the claim.
	// On an error the next renewal or the sweep repairs it.
	for some := range slices.Chunk(held, index.TimerBatch) {
		call := c.indexOwned(some)
		_, _ = call.Script.Run(ctx, c.rdb, call.Keys, call.Args...)
		sessions, tokens := make([]string, len(some)), make([]string, len(some))
		for i, claim := range some {
			sessions[i], tokens[i] = claim.session, claim.hold
		}
		_ = c.hold(ctx, sessions, tokens, c.ttl())
	}
	return renewals
}

// indexOwned makes reap check the sessions of claims after a TTL at the latest. It takes up to
// TimerBatch claims.
func (c *Consumer) indexOwned(claims []*Claim) *script.Call {
	sessions := make([]string, len(claims))
	for i, claim := range claims {
		sessions[i] = claim.session
	}
	return scripts.IndexOwned.Call([]string{rediskey.Owned}, scripts.IndexOwnedArgs{TTL: c.ttl(), Sessions: sessions})
}

// Survive records that the owner of a lost claim lives: the loss then counts neither as a death nor
// as an interruption. Call it when the turn has wound down, because its message can no longer kill
// the worker. It tries until Redis has replied or ctx ends. After a NotWokenError the survival is
// recorded.
func (c *Claim) Survive(ctx context.Context) error {
	c.mu.Lock()
	ids := taskIDs(c.part)
	c.mu.Unlock()
	k, o := c.owner()
	rdb := c.consumer.rdb
	var r scripts.SurviveResult
	err := script.Repeat(ctx, func() (err error) {
		r, err = scripts.Survive.Run(ctx, rdb, scripts.SurviveKeys(k), scripts.SurviveArgs{Task: k.TaskPrefix(), Owner: o, IDs: ids})
		return err
	})
	if err != nil || !r.Free {
		return err
	}
	err = script.Repeat(ctx, func() error {
		return index.Wake(ctx, rdb, r.Now, c.consumer.cfg.Grace(), index.WakeUp{Session: c.session})
	})
	if err != nil {
		return &NotWokenError{[]string{c.session}, err}
	}
	return nil
}
