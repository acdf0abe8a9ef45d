package sessionqueue

import (
	"context"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

const walkBatch = 500

// eachQueue visits the sessions whose queues asynq lists, in batches.
func (c *Consumer) eachQueue(ctx context.Context, visit func(sessions []string) error) error {
	return c.each(ctx, visit, func(cursor uint64) ([]string, uint64, error) {
		names, next, err := c.rdb.SScan(ctx, rediskey.AllQueues, cursor, rediskey.Queue("*"), walkBatch).Result()
		sessions := names[:0]
		for _, name := range names {
			if s, ok := rediskey.SessionOf(name); ok {
				sessions = append(sessions, s)
			}
		}
		return sessions, next, err
	})
}

// eachSession visits every session that was not forgotten, in batches.
func (c *Consumer) eachSession(ctx context.Context, visit func(sessions []string) error) error {
	return c.each(ctx, visit, func(cursor uint64) ([]string, uint64, error) {
		pairs, next, err := c.rdb.ZScan(ctx, rediskey.Sessions, cursor, "", walkBatch).Result()
		sessions := make([]string, 0, len(pairs)/2)
		for i := 0; i < len(pairs); i += 2 {
			sessions = append(sessions, pairs[i])
		}
		return sessions, next, err
	})
}

func (c *Consumer) each(ctx context.Context, visit func([]string) error, scan func(cursor uint64) ([]string, uint64, error)) error {
	for cursor := uint64(0); ; {
		sessions, next, err := scan(cursor)
		if err != nil {
			return err
		}
		if err := visit(sessions); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// withTasks keeps the sessions that have any of the named keys.
func (c *Consumer) withTasks(ctx context.Context, sessions []string, names ...func(rediskey.Session) string) ([]string, error) {
	cmds := make([]*redis.IntCmd, len(sessions))
	_, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, s := range sessions {
			k := rediskey.For(s)
			present := make([]string, len(names))
			for j, name := range names {
				present[j] = name(k)
			}
			cmds[i] = p.Exists(ctx, present...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var found []string
	for i, cmd := range cmds {
		if cmd.Val() > 0 {
			found = append(found, sessions[i])
		}
	}
	return found, nil
}

// unannounced keeps the sessions that do not wait for a worker already.
func (c *Consumer) unannounced(ctx context.Context, sessions []string) ([]string, error) {
	if len(sessions) == 0 {
		return nil, nil
	}
	queued, err := c.rdb.ZMScore(ctx, rediskey.Ready, sessions...).Result()
	if err != nil {
		return nil, err
	}
	rest := make([]string, 0, len(sessions))
	for i, s := range sessions {
		if queued[i] == 0 {
			rest = append(rest, s)
		}
	}
	return rest, nil
}

// without keeps what of all is not in some.
func without(all, some []string) []string {
	in := make(map[string]bool, len(some))
	for _, s := range some {
		in[s] = true
	}
	var rest []string
	for _, s := range all {
		if !in[s] {
			rest = append(rest, s)
		}
	}
	return rest
}
