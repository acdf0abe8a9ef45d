package sessionqueue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Erase removes every key of a conversation: messages, results, dead letters,
// transcripts, events. ErrBusy: a turn is running. It looks at every key of the
// database, to find what its records do not name: transcripts of earlier session
// ids, statistics of earlier days.
func (c *Client) Erase(ctx context.Context, sessionKey string) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	k := rediskey.For(sessionKey)
	for again := false; ; again = true {
		found, err := c.scan(ctx, k.Any())
		if err == nil && again && len(found) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("erase %s: %w", sessionKey, err)
		}
		gone, err := eraseScript.Run(ctx, c.rdb, append(keys(sessionKey, "", time.Now()), found...), k.TaskPrefix()).Bool()
		if err != nil {
			return fmt.Errorf("erase %s: %w", sessionKey, err)
		}
		if !gone {
			busy := fmt.Errorf("%w in %s", ErrBusy, sessionKey)
			if !again {
				return busy
			}
			// It is of a message that came before the session left the indexes: without
			// them nobody would find it again, should its worker die.
			now, err := c.rdb.Time(ctx).Result()
			if err == nil {
				err = c.announce(ctx, sessionKey, now.UnixMilli(), 0)
			}
			return errors.Join(busy, err)
		}
		_, err = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, index := range []string{rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Sessions} {
				p.ZRem(ctx, index, sessionKey)
			}
			p.SRem(ctx, rediskey.AllQueues, rediskey.Queue(sessionKey))
			return nil
		})
		if err != nil {
			return fmt.Errorf("erase %s: %w", sessionKey, err)
		}
		// More may have come between the scan and the script, or after it.
	}
}

// scan finds keys by pattern, on each master of a cluster.
func (c *Client) scan(ctx context.Context, pattern string) (found []string, err error) {
	var mu sync.Mutex
	node := func(ctx context.Context, rdb redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := rdb.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			found = append(found, keys...)
			mu.Unlock()
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return node(ctx, master) })
	} else {
		err = node(ctx, c.rdb)
	}
	return found, err
}
