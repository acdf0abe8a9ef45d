package protocol

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/script"
)

// SetTitle sets the user's title of the current transcript; "" removes it. lua/title.lua.
func SetTitle(ctx context.Context, rdb script.Client, sessionKey, title string) error {
	_, err := scripts.Title.Run(ctx, rdb, scripts.TitleKeys(scripts.KeysOf(sessionKey, "", time.Now())), scripts.TitleArgs{Owner: scripts.Owner{}, Title: title})
	return err
}

// Title proposes a title for the current transcript. It does not replace a user's title.
func (c *Claim) Title(ctx context.Context, title string) error {
	if err := c.lease.Held(); err != nil {
		return fmt.Errorf("title of %s: %w", c.session, err)
	}
	k, o := c.owner()
	_, err := c.consumer.moves.Run(ctx, scripts.Title.Script, scripts.TitleKeys(k), scripts.TitleArgs{Owner: o, Title: text(title)}.Words()...)
	if err != nil {
		return fmt.Errorf("title of %s: %w", c.session, err)
	}
	return nil
}
