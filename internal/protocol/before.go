package protocol

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// Before returns the ID of the session's last turn before the running one, "" if it is unknown. It is for traces: the
// turn may be of other messages, if an interrupt came between.
func (c *Claim) Before(ctx context.Context) string {
	k, turn := rediskey.For(c.session), c.Turn()
	var last, interrupted *redis.StringCmd
	_, _ = c.consumer.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // a missing field is an error, too
		last, interrupted = p.HGet(ctx, k.Run(), "last"), p.HGet(ctx, k.Resume(), "fence")
		return nil
	})
	texts := append(strings.Fields(last.Val()), "", "")[1:2] // "token fence word"
	var latest int64
	for _, text := range append(texts, interrupted.Val()) {
		if fence, err := strconv.ParseInt(text, 10, 64); err == nil && fence < turn.Fence {
			latest = max(latest, fence)
		}
	}
	if latest <= 0 {
		return ""
	}
	return c.prefix + strconv.FormatInt(latest, 10)
}
