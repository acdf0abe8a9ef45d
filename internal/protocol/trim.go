package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/scripts"

	"github.com/redis/go-redis/v9"
)

// Trim archives a batch of the messages beyond the cap of each session's queue. lua/trim.lua.
func (c Config) Trim(ctx context.Context, rdb redis.UniversalClient, sessions []string) []Batch {
	at := time.Now()
	calls := scripts.Trim.Each(ctx, rdb, len(sessions), func(i int) ([]string, scripts.TrimArgs) {
		return scripts.TrimKeys(scripts.KeysOf(sessions[i], "", at)), scripts.TrimArgs{
			Prefixes: scripts.PrefixesOf(sessions[i]), Stream: c.stream(), Longest: TaskMost(c.Limits), LineCap: c.LineMost()}
	})
	all := make([]Batch, len(calls))
	for i, call := range calls {
		r := scripts.Trim.Result(call)
		all[i] = Batch{int(r.Left), r.More, call.Err}
	}
	return all
}
