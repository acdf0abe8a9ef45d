package protocol

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Rerun puts dead letters back at the end of the line. lua/rerun.lua.
type Rerun struct {
	Session string
	Call    string // names this call, so that a repetition is known
	LineCap int
	Letters []DeadTask // in the order in which they are to run
}

// DeadTask names a dead letter as its caller has seen it.
type DeadTask struct{ ID, Arrived string }

// Do returns how many went back, and Redis' clock, ms.
func (r Rerun) Do(ctx context.Context, rdb script.Client) (n int, now int64, err error) {
	k := rediskey.For(r.Session)
	ids, arrived := make([]string, len(r.Letters)), make([]string, len(r.Letters))
	for i, d := range r.Letters {
		ids[i], arrived[i] = d.ID, d.Arrived
	}
	back, err := rerunMove.run(ctx, rdb, rerunMove.keys(Keys(r.Session, "", time.Now()), k.Call(r.Call)), rerunMove.args(
		"task", k.TaskPrefix(), "statuses", string(session.StatusStopped)+" "+string(session.StatusFailed), "line_cap", r.LineCap,
		"ids", ids, "arrived", arrived,
	))
	return int(back.int("moved")), back.int("now"), err
}

// Discard deletes those of the tasks that are dead letters, and returns how many.
// lua/discard.lua.
func Discard(ctx context.Context, rdb script.Client, sessionKey string, taskIDs []string) (n int, err error) {
	r, err := discardMove.run(ctx, rdb, discardMove.keys(Keys(sessionKey, "", time.Now())),
		discardMove.args("task", rediskey.For(sessionKey).TaskPrefix(), "ids", taskIDs))
	return int(r.int("discarded")), err
}

// Erase deletes a batch of a session's messages, and in the end all of its keys.
// lua/erase.lua.
type Erase struct {
	Session string
	Fence   string   // of the last turn when the keys were looked up, "": none
	Batch   int      // messages
	Others  []string // keys, beside those of Keys
	Last    bool     // no other key of the session is left
}

// Do returns gone, held (somebody owns the session), changed (a turn has run since the
// keys were looked up) or batch (call again).
func (e Erase) Do(ctx context.Context, rdb script.Client) (state string, err error) {
	r, err := eraseMove.run(ctx, rdb, eraseMove.keys(Keys(e.Session, "", time.Now()), e.Others...), eraseMove.args(
		"task", rediskey.For(e.Session).TaskPrefix(), "fence", e.Fence, "size", e.Batch, "last", e.Last,
	))
	return r.status(), err
}

// Purge deletes a batch of results and dead letters that are too old, in each of the
// sessions. lua/purge.lua.
func Purge(ctx context.Context, rdb redis.UniversalClient, sessions []string, batch int, archiveTTL time.Duration) []Batch {
	at := time.Now()
	return purgeMove.batches(ctx, rdb, "deleted", sessions, func(i int) ([]string, []any) {
		return purgeMove.keys(Keys(sessions[i], "", at)), purgeMove.args(
			"task", rediskey.For(sessions[i]).TaskPrefix(), "batch", batch, "archive_ttl", int64(archiveTTL/time.Second))
	})
}

// Trim archives a batch of what is over the cap of each session's line. lua/trim.lua.
func (c Config) Trim(ctx context.Context, rdb redis.UniversalClient, sessions []string) []Batch {
	at := time.Now()
	return trimMove.batches(ctx, rdb, "left", sessions, func(i int) ([]string, []any) {
		s := sessions[i]
		return trimMove.keys(Keys(s, "", at)), trimMove.args(
			"task", rediskey.For(s).TaskPrefix(), "prefix", rediskey.IDPrefix(s), "event_limits", c.eventLimits(),
			"longest", c.Limits.Task(), "line_cap", c.LineMost())
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

// Forget deletes the record of a session that was not used for ttl. lua/forget.lua.
func Forget(ctx context.Context, rdb script.Client, sessionKey, sessionID string, now time.Time, ttl time.Duration) (gone bool, err error) {
	r, err := forgetMove.run(ctx, rdb, forgetMove.keys(Keys(sessionKey, sessionID, now)), forgetMove.args("age", ttl.Milliseconds()))
	return r.is("gone"), err
}
