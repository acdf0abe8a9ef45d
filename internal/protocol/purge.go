package protocol

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/scripts"
)

// Purge deletes a batch of each session's expired results and dead letters, and the events of those that are idle, if the
// last one is older than quiet. lua/purge.lua.
func (c Config) Purge(ctx context.Context, rdb redis.UniversalClient, sessions []string, batch int, quiet time.Duration) []Batch {
	at := time.Now()
	calls := scripts.Purge.Each(ctx, rdb, len(sessions), func(i int) ([]string, scripts.PurgeArgs) {
		k := scripts.KeysOf(sessions[i], "", at)
		return scripts.PurgeKeys(k), scripts.PurgeArgs{
			Task: k.TaskPrefix(), Batch: int64(batch), ArchiveTTL: int64(c.ArchiveTTL / time.Second), Quiet: quiet.Milliseconds(), EventsCap: int64(c.EventsCap)}
	})
	all := make([]Batch, len(calls))
	for i, call := range calls {
		r := scripts.Purge.Result(call)
		all[i] = Batch{int(r.Deleted), r.More, call.Err}
	}
	return all
}

// Batch is the result of one call in one session.
type Batch struct {
	N    int
	More bool // there is more to do: call again
	Err  error
}

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
