package protocol

import (
	"context"
	"time"

	"turnstile/internal/script"
)

// Forget deletes the record of a session that was not used for ttl, and reports whether it did.
// lua/forget.lua.
func Forget(ctx context.Context, rdb script.Client, sessionKey, sessionID string, now time.Time, ttl time.Duration) (gone bool, err error) {
	r, err := forgetMove.run(ctx, rdb, forgetMove.keys(Keys(sessionKey, sessionID, now)), forgetMove.args("age", ttl.Milliseconds()))
	return r.is("gone"), err
}
