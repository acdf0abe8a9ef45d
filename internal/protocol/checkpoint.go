package protocol

import (
	"context"

	"turnstile/internal/protocol/scripts"
	"turnstile/pkg/session"
)

// partial encodes the entries of a turn so far, as a checkpoint stores them; "" if there are none.
func (c *Claim) partial(entries []session.Entry) (string, error) {
	if len(entries) == 0 {
		return "", nil
	}
	entries = c.consumer.bounded(entries)
	c.mu.Lock()
	p := Partial{Fence: c.turn.Fence, Turn: c.turn.ID, Messages: ids(c.part), Entries: entries}
	c.mu.Unlock()
	return p.encode()
}

// Checkpoint stores the entries of the running turn so far. If the turn is interrupted, the next
// claim finds them; the turn's end deletes them.
func (c *Claim) Checkpoint(ctx context.Context, entries []session.Entry) error {
	p, err := c.partial(entries)
	if err != nil {
		return err
	}
	k, o := c.owner()
	_, err = own(ctx, c, true, scripts.Checkpoint, scripts.CheckpointKeys(k), scripts.CheckpointArgs{
		Owner: o, TTL: c.consumer.ttl(), Content: p, PartialTTL: c.consumer.cfg.TranscriptTTL.Milliseconds(),
	})
	return err
}
