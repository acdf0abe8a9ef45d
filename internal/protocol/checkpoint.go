package protocol

import (
	"context"

	"turnstile/internal/stored"
	"turnstile/pkg/session"
)

// partial is the entries of a turn so far, as they are stored beside it; "" if
// there are none.
func (c *Claim) partial(entries []session.Entry) (string, error) {
	if len(entries) == 0 {
		return "", nil
	}
	entries = c.consumer.bounded(entries)
	c.mu.Lock()
	p := stored.Partial{Fence: c.turn.Fence, Turn: c.turn.ID, Messages: ids(c.part), Entries: entries}
	c.mu.Unlock()
	return p.Encode()
}

// Checkpoint stores what the running turn has done so far. The next claim finds
// it if the turn is cut off; its end removes it.
func (c *Claim) Checkpoint(ctx context.Context, entries []session.Entry) error {
	p, err := c.partial(entries)
	if err != nil {
		return err
	}
	cfg := c.consumer.cfg
	_, err = c.move(ctx, checkpointMove, true, "content", p, "partial_ttl", cfg.TranscriptTTL.Milliseconds())
	return err
}
