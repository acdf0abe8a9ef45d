package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// Forget deletes the record of a session that was not used for ttl, and reports whether it did.
// lua/forget.lua.
func Forget(ctx context.Context, rdb script.Client, sessionKey, transcriptID string, now time.Time, ttl time.Duration) (gone bool, err error) {
	r, err := scripts.Forget.Run(ctx, rdb, scripts.ForgetKeys(scripts.KeysOf(sessionKey, transcriptID, now)), scripts.ForgetArgs{Age: ttl.Milliseconds()})
	return r.Gone, err
}
