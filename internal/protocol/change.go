package protocol

import (
	"context"
	"fmt"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Rotate gives a session another session id. lua/rotate.lua.
type Rotate struct {
	Session string
	Old     string // the one that it replaces; "": whichever
	Until   int64  // ms: after that nothing is done
}

// Do returns the session id that holds now. late: the request came after Until.
func (r Rotate) Do(ctx context.Context, rdb script.Client) (sessionID string, late bool, err error) {
	a, err := rotateScript.Run(ctx, rdb, Keys(r.Session, "", time.Now()), rediskey.For(r.Session).TaskPrefix(), newSessionID(), r.Old, r.Until)
	return a.Text(0), a.Int(1) < 0, err
}

// SetTitle gives the conversation a user's title; "" removes it. lua/title.lua.
func SetTitle(ctx context.Context, rdb script.Client, sessionKey, title string) error {
	_, err := titleScript.Run(ctx, rdb, Keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix(), "", "", title)
	return err
}

// Configure stores a session's queue settings; the zero Settings remove them.
// lua/configure.lua.
func Configure(ctx context.Context, rdb script.Client, sessionKey string, s session.QueueSettings) error {
	var text string
	if s != (session.QueueSettings{}) {
		var err error
		if text, err = marshal(s); err != nil {
			return fmt.Errorf("encode settings: %w", err)
		}
	}
	_, err := configureScript.Run(ctx, rdb, Keys(sessionKey, "", time.Now()), rediskey.For(sessionKey).TaskPrefix(), text)
	return err
}
