package protocol

import (
	"context"

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
