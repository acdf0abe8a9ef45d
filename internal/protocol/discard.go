package protocol

import (
	"context"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// Discard deletes those of the tasks that are dead letters, and returns how many. lua/discard.lua.
func Discard(ctx context.Context, rdb script.Client, sessionKey string, taskIDs []string) (n int, err error) {
	k := rediskey.For(sessionKey)
	r, err := scripts.Discard.Run(ctx, rdb, []string{k.Archived()}, scripts.DiscardArgs{Task: k.TaskPrefix(), IDs: taskIDs})
	return int(r.Discarded), err
}
