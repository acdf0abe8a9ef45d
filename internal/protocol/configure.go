package protocol

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Configure stores a session's queue settings. Zero settings remove them. lua/configure.lua.
func Configure(ctx context.Context, rdb script.Client, sessionKey string, s session.QueueSettings) error {
	var text string
	if s != (session.QueueSettings{}) {
		var err error
		if text, err = marshal(s); err != nil {
			return fmt.Errorf("encode settings: %w", err)
		}
	}
	_, err := configureMove.run(ctx, rdb, configureMove.keys(Keys(sessionKey, "", time.Now())), configureMove.args("setting", "queue", "value", text))
	return err
}

// SetReplyTo stores the destination of a session's outcomes; "" removes it. lua/configure.lua.
func SetReplyTo(ctx context.Context, rdb script.Client, sessionKey, destination string) error {
	_, err := configureMove.run(ctx, rdb, configureMove.keys(Keys(sessionKey, "", time.Now())), configureMove.args("setting", "reply_to", "value", destination))
	return err
}
