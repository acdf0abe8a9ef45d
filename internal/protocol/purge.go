package protocol

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// Purge deletes a batch of the results and dead letters of each session whose time is over.
// lua/purge.lua.
func Purge(ctx context.Context, rdb redis.UniversalClient, sessions []string, batch int, archiveTTL time.Duration) []Batch {
	at := time.Now()
	return purgeMove.batches(ctx, rdb, "deleted", sessions, func(i int) ([]string, []any) {
		return purgeMove.keys(Keys(sessions[i], "", at)), purgeMove.args(
			"task", rediskey.For(sessions[i]).TaskPrefix(), "batch", batch, "archive_ttl", int64(archiveTTL/time.Second))
	})
}

// Batch is what one call did in one session.
type Batch struct {
	N    int
	More bool // there is more to do: call again
	Err  error
}

// batches calls a move for each of the sessions. n names the result's field that counts.
func (m *move) batches(ctx context.Context, rdb redis.UniversalClient, n string, sessions []string, call func(i int) ([]string, []any)) []Batch {
	all := make([]Batch, len(sessions))
	for i, c := range m.Each(ctx, rdb, len(sessions), call) {
		r := m.returned(c.Result)
		all[i] = Batch{int(r.int(n)), r.is("more"), c.Err}
	}
	return all
}
