package protocol

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// Admit counts a message among those that wait in all sessions, at most so many.
// lua/admit.lua.
func Admit(ctx context.Context, rdb redis.UniversalClient, sessionKey, taskID string, most int) (ok bool, err error) {
	k := rediskey.For(sessionKey)
	var room *redis.Cmd
	var owned, known *redis.IntCmd
	ask := func(eval func(p redis.Pipeliner) *redis.Cmd) error {
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			owned, known = p.Exists(ctx, k.Sentinel()), p.Exists(ctx, k.Task(taskID))
			room = eval(p)
			return nil
		})
		return err
	}
	keys := []string{rediskey.Waiting}
	err = ask(func(p redis.Pipeliner) *redis.Cmd { return admitScript().EvalSha(ctx, p, keys, most) })
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		err = ask(func(p redis.Pipeliner) *redis.Cmd { return admitScript().Eval(ctx, p, keys, most) })
	}
	if err != nil {
		return false, Unchanged(err, true)
	}
	n, err := room.Int()
	return n == 1 || owned.Val() > 0 || known.Val() > 0, err
}
