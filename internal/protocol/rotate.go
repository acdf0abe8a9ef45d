package protocol

import (
	"context"
	"time"

	"turnstile/internal/script"
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
