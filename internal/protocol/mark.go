package protocol

import (
	"context"
	"fmt"

	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/scripts"
)

// MarkResult is the result of Mark for one claim.
type MarkResult struct {
	Claim *Claim
	Err   error // wraps lease.ErrLost if another worker owns the session

	// Starting: the agent has not started, so there is nothing to interrupt. The turn is not
	// marked, and Promote refuses to start it.
	Starting bool
}

// Mark is called at the end of a drain's timeout, before the turns are interrupted. It sets the
// resume mark of turns in the phase running, and keeps the others from starting.
func (c *Consumer) Mark(ctx context.Context, claims []*Claim, reason string) []MarkResult {
	marks := make([]MarkResult, len(claims))
	calls := scripts.Mark.Each(ctx, c.rdb, len(claims), func(i int) ([]string, scripts.MarkArgs) {
		k, o := claims[i].owner()
		return scripts.MarkKeys(k), scripts.MarkArgs{Owner: o, TTL: c.ttl(), Reason: reason, StuckLimit: int64(c.cfg.StuckLimit)}
	})
	for i, call := range calls {
		status := scripts.Mark.Result(call).Status
		marks[i] = MarkResult{Claim: claims[i], Err: call.Err, Starting: status == scripts.Starting}
		// Perhaps the turn has just ended, which is no loss. Renewals detect a real one.
		if call.Err == nil && status == scripts.Lost {
			marks[i].Err = fmt.Errorf("mark %s: %w", claims[i].session, lease.ErrLost)
		}
	}
	return marks
}
