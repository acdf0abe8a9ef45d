package protocol

import (
	"context"
	"fmt"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// Survive records that the owner of a lost claim lives: the loss then counts neither as a death nor
// as an interruption. Call it when the turn has wound down, because its message can no longer kill
// the worker. It tries until Redis has replied or ctx ends. After ErrNotWoken the survival is
// recorded, and reap or the sweep finds the session.
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
		return fmt.Errorf("survived in %s: %w: %w", c.session, ErrNotWoken, err)
	}
	return nil
}
