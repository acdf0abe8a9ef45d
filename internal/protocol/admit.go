package protocol

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// admit reports whether a message may join those that wait in all sessions. A repetition
// of one that is there already may, and so may one for a session with an owner: its line
// has limits of its own. The round trip is made only if there is a cap.
func (c *Client) admit(ctx context.Context, sessionKey, id string) (bool, error) {
	if c.cfg.MessagesCap == 0 {
		return true, nil
	}
	k := rediskey.For(sessionKey)
	var room *redis.Cmd
	var owned, known *redis.IntCmd
	ask := func(eval func(p redis.Pipeliner) *redis.Cmd) error {
		_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			owned, known = p.Exists(ctx, k.Sentinel()), p.Exists(ctx, k.Task(session.TaskID(sessionKey, id)))
			room = eval(p)
			return nil
		})
		return err
	}
	keys := []string{rediskey.Waiting}
	err := ask(func(p redis.Pipeliner) *redis.Cmd { return admitScript().EvalSha(ctx, p, keys, c.cfg.MessagesCap) })
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		err = ask(func(p redis.Pipeliner) *redis.Cmd { return admitScript().Eval(ctx, p, keys, c.cfg.MessagesCap) })
	}
	if err != nil {
		return false, fmt.Errorf("count the messages that wait before message %s of %s: %w", id, sessionKey, unchangedError{err})
	}
	n, err := room.Int()
	return n == 1 || owned.Val() > 0 || known.Val() > 0, err
}
