package protocol

import (
	"context"
	"time"

	"turnstile/internal/redisconn"
	"turnstile/internal/script"
)

// Rotate gives a session a new session id. lua/rotate.lua.
type Rotate struct {
	Session string
	Old     string // the one to replace; "": any
	Until   int64  // ms; after that the script does nothing
}

// Do returns the session id that is current then. late reports that the call came after Until.
func (r Rotate) Do(ctx context.Context, rdb script.Client) (sessionID string, late bool, err error) {
	now, err := rotateMove.run(ctx, rdb, rotateMove.keys(Keys(r.Session, "", time.Now())),
		rotateMove.args("fresh_sid", newSessionID(), "sid", r.Old, "deadline", r.Until))
	if late = now.int("changed") < 0; late && r.Old == "" && now.unsure { // it may be another's that is there now
		return "", false, redisconn.ErrUnsure
	}
	return now.text("sid"), late, err
}
