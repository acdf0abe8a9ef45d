package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/scripts"

	"github.com/redis/go-redis/v9"
)

// Purge deletes a batch of each session's expired results and dead letters. lua/purge.lua.
func Purge(ctx context.Context, rdb redis.UniversalClient, sessions []string, batch int, archiveTTL time.Duration) []Batch {
	at := time.Now()
	calls := scripts.Purge.Each(ctx, rdb, len(sessions), func(i int) ([]string, scripts.PurgeArgs) {
		k := scripts.KeysOf(sessions[i], "", at)
		return scripts.PurgeKeys(k), scripts.PurgeArgs{Task: k.TaskPrefix(), Batch: int64(batch), ArchiveTTL: int64(archiveTTL / time.Second)}
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
