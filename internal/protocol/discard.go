package protocol

import (
	"context"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// Discard deletes those of the tasks that are dead letters, and returns how many. lua/discard.lua.
func Discard(ctx context.Context, rdb script.Client, sessionKey string, taskIDs []string) (n int, err error) {
	r, err := discardMove.run(ctx, rdb, discardMove.keys(Keys(sessionKey, "", time.Now())),
		discardMove.args("task", rediskey.For(sessionKey).TaskPrefix(), "ids", taskIDs))
	return int(r.int("discarded")), err
}
