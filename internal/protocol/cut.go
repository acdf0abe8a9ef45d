package protocol

import (
	"context"
	"fmt"

	"turnstile/internal/lease"
	"turnstile/internal/stored"
	"turnstile/pkg/session"
)

// partial is the entries of a turn so far, as they are stored beside it; "" if
// there are none.
func (h *Claim) partial(entries []session.Entry) (string, error) {
	if len(entries) == 0 {
		return "", nil
	}
	entries = h.consumer.bounded(entries)
	h.mu.Lock()
	p := stored.Partial{Fence: h.turn.Fence, Turn: h.turn.ID, Messages: ids(h.part), Entries: entries}
	h.mu.Unlock()
	return p.Encode()
}

// Checkpoint stores what the running turn has done so far. The next claim finds
// it if the turn is cut off; its end removes it.
func (h *Claim) Checkpoint(ctx context.Context, entries []session.Entry) error {
	p, err := h.partial(entries)
	if err != nil {
		return err
	}
	c := h.consumer.cfg
	_, err = h.move(ctx, checkpointMove, true, "content", p, "partial_ttl", c.TranscriptTTL.Milliseconds())
	return err
}

// MarkResult is what became of a hold's resume mark.
type MarkResult struct {
	Hold *Claim
	Err  error // wraps lease.ErrLost when the session is another's

	// Starting: there was no agent to cut off. The turn is not marked, and Promote
	// refuses to start it.
	Starting bool
}

// Mark is called when a drain's time is up, before the turns are interrupted: it
// marks those that run to be resumed, and keeps the others from starting. What
// counts is what runs at this moment.
func (c *Consumer) Mark(ctx context.Context, holds []*Claim, reason string) []MarkResult {
	marks := make([]MarkResult, len(holds))
	calls := markMove.Each(ctx, c.rdb, len(holds), func(i int) ([]string, []any) {
		h := holds[i]
		h.mu.Lock()
		defer h.mu.Unlock()
		return markMove.keys(h.keys), h.args(markMove, h.turn.Fence, "reason", reason)
	})
	for i, call := range calls {
		status := markMove.returned(call.Result).status()
		marks[i] = MarkResult{Hold: holds[i], Err: call.Err, Starting: status == "starting"}
		// A turn that ended just now, or went on to the next, is no loss: renewals
		// see what is.
		if call.Err == nil && status == "lost" {
			marks[i].Err = fmt.Errorf("mark %s: %w", holds[i].session, lease.ErrLost)
		}
	}
	return marks
}
