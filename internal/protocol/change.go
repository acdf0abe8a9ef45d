package protocol

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Rotate gives a session another session id. lua/rotate.lua.
type Rotate struct {
	Session string
	Old     string // the one that it replaces; "": whichever
	Until   int64  // ms: after that nothing is done
}

// Do returns the session id that holds now. late: the request came after Until.
func (r Rotate) Do(ctx context.Context, rdb redis.Scripter) (sessionID string, late bool, err error) {
	a, err := run(ctx, rdb, rotateScript(), Keys(r.Session, "", time.Now()), rediskey.For(r.Session).TaskPrefix(), newSessionID(), r.Old, r.Until)
	return a.Str(0), a.int(1) < 0, err
}

// SetTitle gives the conversation a user's title; "" removes it. lua/title.lua.
func SetTitle(ctx context.Context, rdb redis.Scripter, sessionKey, title string) error {
	_, err := run(ctx, rdb, titleScript(), Keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix(), "", "", title)
	return err
}

// Configure stores a session's queue settings; the zero Settings remove them.
// lua/configure.lua.
func Configure(ctx context.Context, rdb redis.Scripter, sessionKey string, s session.QueueSettings) error {
	var text string
	if s != (session.QueueSettings{}) {
		var err error
		if text, err = marshal(s); err != nil {
			return fmt.Errorf("encode settings: %w", err)
		}
	}
	_, err := run(ctx, rdb, configureScript(), Keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix(), text)
	return err
}
