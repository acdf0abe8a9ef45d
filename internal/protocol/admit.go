package protocol

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
)

// Admit reports whether a message may wait, if all sessions together may have most waiting
// messages. A message for a session with an owner, or one that is stored already, may always wait.
// lua/admit.lua.
func Admit(ctx context.Context, rdb redis.UniversalClient, sessionKey, taskID string, most int) (ok bool, err error) {
	k := rediskey.For(sessionKey)
	call := scripts.Admit.Call([]string{rediskey.Waiting}, scripts.AdmitArgs{Most: int64(most)})
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
	return scripts.Admit.Result(call).May || owned.Val() > 0 || known.Val() > 0, nil
}
