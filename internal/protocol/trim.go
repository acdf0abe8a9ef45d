package protocol

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// Trim archives a batch of the messages beyond the cap of each session's line. lua/trim.lua.
func (c Config) Trim(ctx context.Context, rdb redis.UniversalClient, sessions []string) []Batch {
	at := time.Now()
	return trimMove.batches(ctx, rdb, "left", sessions, func(i int) ([]string, []any) {
		s := sessions[i]
		return trimMove.keys(Keys(s, "", at)), trimMove.args(append(c.eventPairs(),
			"task", rediskey.For(s).TaskPrefix(), "prefix", rediskey.IDPrefix(s), "longest", TaskMost(c.Limits), "line_cap", c.LineMost())...)
	})
}
