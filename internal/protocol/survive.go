package protocol

import (
	"context"
	"fmt"

	"turnstile/internal/script"
)

// Survive records that the owner of a lost claim lives, so the loss of its turn is neither a death
// nor an interruption. Call it when the turn has wound down: from then on its message cannot kill
// the worker any more. It tries until Redis has replied or ctx ends.
// If the error wraps ErrNotWoken the word is recorded, and reap or the sweep finds the session.
func (c *Claim) Survive(ctx context.Context) error {
	c.mu.Lock()
	keys, args := surviveMove.keys(c.keys), c.args(surviveMove, c.turn.Fence, "ids", taskIDs(c.part))
	c.mu.Unlock()
	rdb := c.consumer.rdb
	var r returned
	err := script.Repeat(ctx, func() (err error) {
		r, err = surviveMove.run(ctx, rdb, keys, args)
		return err
	})
	if err != nil || !r.is("free") {
		return err
	}
	err = script.Repeat(ctx, func() error {
		return Wake(ctx, rdb, r.int("now"), c.consumer.cfg.Grace(), WakeUp{Session: c.session})
	})
	if err != nil {
		return fmt.Errorf("survived in %s: %w: %w", c.session, ErrNotWoken, err)
	}
	return nil
}
