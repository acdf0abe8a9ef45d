package sessionqueue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// Erase removes every key of a conversation: messages, results, dead letters,
// transcripts, events. ErrBusy: a turn is running. It looks at every key of the
// database, to find transcripts of earlier session ids.
func (c *Client) Erase(ctx context.Context, sessionKey string) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	k := rediskey.For(sessionKey)
	for {
		transcripts, err := c.scan(ctx, k.TranscriptPrefix()+"*")
		if err != nil {
			return fmt.Errorf("erase %s: %w", sessionKey, err)
		}
		gone, err := eraseScript.Run(ctx, c.rdb, append(keys(sessionKey, "", time.Now()), transcripts...), k.TaskPrefix()).Bool()
		if err != nil {
			return fmt.Errorf("erase %s: %w", sessionKey, err)
		}
		if !gone {
			return fmt.Errorf("%w in %s", ErrBusy, sessionKey)
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
		// A turn may have begun another transcript between the scan and the script.
		left, err := c.scan(ctx, k.Any())
		if err != nil || len(left) == 0 {
			return err
		}
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
