package protocol

import (
	"context"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// Discard deletes those of the tasks that are dead letters, and returns how many. lua/discard.lua.
func Discard(ctx context.Context, rdb script.Client, sessionKey string, taskIDs []string) (n int, err error) {
	return discard(ctx, rdb, sessionKey, rediskey.For(sessionKey).Archived(), taskIDs)
}

// DiscardResult deletes a task whose result is kept, and reports whether it was. The script is the same: it
// deletes tasks that are in a list of ended ones.
func DiscardResult(ctx context.Context, rdb script.Client, sessionKey, taskID string) (bool, error) {
	n, err := discard(ctx, rdb, sessionKey, rediskey.For(sessionKey).Completed(), []string{taskID})
	return n > 0, err
}

func discard(ctx context.Context, rdb script.Client, sessionKey, list string, taskIDs []string) (n int, err error) {
	r, err := scripts.Discard.Run(ctx, rdb, []string{list}, scripts.DiscardArgs{Task: rediskey.For(sessionKey).TaskPrefix(), IDs: taskIDs})
	return int(r.Discarded), err
}
