package protocol

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// Purge deletes a batch of results and dead letters that are too old, in each of the
// sessions. lua/purge.lua.
func Purge(ctx context.Context, rdb redis.UniversalClient, sessions []string, batch int, archiveTTL time.Duration) []Batch {
	at := time.Now()
	return purgeMove.batches(ctx, rdb, "deleted", sessions, func(i int) ([]string, []any) {
		return purgeMove.keys(Keys(sessions[i], "", at)), purgeMove.args(
			"task", rediskey.For(sessions[i]).TaskPrefix(), "batch", batch, "archive_ttl", int64(archiveTTL/time.Second))
	})
}

// Batch is what one call has done in one session.
type Batch struct {
	N    int
	More bool // call again
	Err  error
}

// batches calls a move for each of the sessions. n is the field of how much it has done.
func (m *move) batches(ctx context.Context, rdb redis.UniversalClient, n string, sessions []string, call func(i int) ([]string, []any)) []Batch {
	all := make([]Batch, len(sessions))
	for i, c := range m.Each(ctx, rdb, len(sessions), call) {
		r := m.returned(c.Result)
		all[i] = Batch{int(r.int(n)), r.is("more"), c.Err}
	}
	return all
}
