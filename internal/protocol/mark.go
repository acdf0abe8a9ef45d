package protocol

import (
	"context"
	"fmt"

	"turnstile/internal/lease"
)

// MarkResult is what became of a hold's resume mark.
type MarkResult struct {
	Claim *Claim
	Err   error // wraps lease.ErrLost when the session is another's

	// Starting: there was no agent to cut off. The turn is not marked, and Promote
	// refuses to start it.
	Starting bool
}

// Mark is called when a drain's time is up, before the turns are interrupted: it
// marks those that run to be resumed, and keeps the others from starting. What
// counts is what runs at this moment.
func (c *Consumer) Mark(ctx context.Context, claims []*Claim, reason string) []MarkResult {
	marks := make([]MarkResult, len(claims))
	calls := markMove.Each(ctx, c.rdb, len(claims), func(i int) ([]string, []any) {
		claim := claims[i]
		claim.mu.Lock()
		defer claim.mu.Unlock()
		return markMove.keys(claim.keys), claim.args(markMove, claim.turn.Fence, "reason", reason)
	})
	for i, call := range calls {
		status := markMove.returned(call.Result).status()
		marks[i] = MarkResult{Claim: claims[i], Err: call.Err, Starting: status == "starting"}
		// A turn that ended just now, or went on to the next, is no loss: renewals
		// see what is.
		if call.Err == nil && status == "lost" {
			marks[i].Err = fmt.Errorf("mark %s: %w", claims[i].session, lease.ErrLost)
		}
	}
	return marks
}
