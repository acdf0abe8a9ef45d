package protocol

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Configure stores a session's queue settings. Zero settings remove them. by is who does it, "": unknown.
// lua/configure.lua.
func Configure(ctx context.Context, rdb script.Client, sessionKey, by string, s session.QueueSettings) error {
	var text string
	if s != (session.QueueSettings{}) {
		var err error
		if text, err = marshal(s); err != nil {
			return fmt.Errorf("encode settings: %w", err)
		}
	}
	return configure(ctx, rdb, sessionKey, scripts.ConfigureArgs{By: cutBy(by), Setting: "queue", Value: text})
}

// SetReplyTo stores the destination of a session's outcomes; "" removes it. lua/configure.lua.
func SetReplyTo(ctx context.Context, rdb script.Client, sessionKey, by, destination string) error {
	return configure(ctx, rdb, sessionKey, scripts.ConfigureArgs{By: cutBy(by), Setting: "reply_to", Value: destination})
}

func configure(ctx context.Context, rdb script.Client, sessionKey string, args scripts.ConfigureArgs) error {
	_, err := scripts.Configure.Run(ctx, rdb, scripts.ConfigureKeys(scripts.KeysOf(sessionKey, "", time.Now())), args)
	return err
}
