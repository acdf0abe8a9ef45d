package protocol

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
)

// Admit counts a message among those that wait in all sessions, at most so many.
// lua/admit.lua.
func Admit(ctx context.Context, rdb redis.UniversalClient, sessionKey, taskID string, most int) (ok bool, err error) {
	k := rediskey.For(sessionKey)
	call := &script.Call{Script: admitMove.Script, Keys: []string{rediskey.Waiting}, Args: admitMove.args("most", most)}
	var owned, known *redis.IntCmd
	err = script.Pipeline(ctx, rdb, []*script.Call{call}, func(p redis.Pipeliner) {
		owned, known = p.Exists(ctx, k.Sentinel()), p.Exists(ctx, k.Task(taskID))
	})
	if err == nil {
		err = call.Err
	}
	if err != nil {
		return false, Unchanged(err, true)
	}
	return admitMove.returned(call.Result).is("may") || owned.Val() > 0 || known.Val() > 0, nil
}
