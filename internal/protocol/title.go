package protocol

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/script"
)

// SetTitle sets the user's title of the current transcript; "" removes it. lua/title.lua.
func SetTitle(ctx context.Context, rdb script.Client, sessionKey, title string) error {
	_, err := titleMove.run(ctx, rdb, titleMove.keys(Keys(sessionKey, "", time.Now())), titleMove.args("token", "", "fence", "", "title", title))
	return err
}

// Title proposes a title for the current transcript. It does not replace a user's title.
func (c *Claim) Title(ctx context.Context, title string) error {
	if err := c.lease.Held(); err != nil {
		return fmt.Errorf("title of %s: %w", c.session, err)
	}
	c.mu.Lock()
	keys, fence := c.keys, c.turn.Fence
	c.mu.Unlock()
	_, err := c.consumer.moves.Run(ctx, titleMove.Script, titleMove.keys(keys), c.args(titleMove, fence, "title", text(title))...)
	if err != nil {
		return fmt.Errorf("title of %s: %w", c.session, err)
	}
	return nil
}
