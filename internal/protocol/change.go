package protocol

import (
	"context"
	"fmt"
	"time"

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
	now, err := rotateMove.run(ctx, rdb, rotateMove.keys(Keys(r.Session, "", time.Now())),
		rotateMove.args("fresh_sid", newSessionID(), "sid", r.Old, "deadline", r.Until))
	return now.text("sid"), now.int("changed") < 0, err
}

// SetTitle gives the conversation a user's title; "" removes it. lua/title.lua.
func SetTitle(ctx context.Context, rdb script.Client, sessionKey, title string) error {
	_, err := titleMove.run(ctx, rdb, titleMove.keys(Keys(sessionKey, "", time.Now())), titleMove.args("token", "", "fence", "", "title", title))
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
	_, err := configureMove.run(ctx, rdb, configureMove.keys(Keys(sessionKey, "", time.Now())), configureMove.args("settings", text))
	return err
}
