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
	args := []any{k.TaskPrefix(), string(session.StatusStopped) + " " + string(session.StatusFailed), r.LineCap}
	for _, d := range r.Letters {
		args = append(args, d.ID, d.Arrived)
	}
	a, err := rerunScript.Run(ctx, rdb, append(Keys(r.Session, "", time.Now()), k.Call(r.Call)), args...)
	return int(a.Int(0)), a.Int(1), err
}

// Discard deletes those of the tasks that are dead letters, and returns how many.
// lua/discard.lua.
func Discard(ctx context.Context, rdb script.Client, sessionKey string, taskIDs []string) (n int, err error) {
	args := make([]any, 0, 1+len(taskIDs))
	args = append(args, rediskey.For(sessionKey).TaskPrefix())
	for _, id := range taskIDs {
		args = append(args, id)
	}
	a, err := discardScript.Run(ctx, rdb, Keys(sessionKey, "", time.Now()), args...)
	return int(a.Int(0)), err
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
	a, err := eraseScript.Run(ctx, rdb, append(Keys(e.Session, "", time.Now()), e.Others...),
		rediskey.For(e.Session).TaskPrefix(), e.Fence, e.Batch, flag(e.Last))
	return a.Text(0), err
}

// Purge deletes a batch of results and dead letters that are too old, in each of the
// sessions. lua/purge.lua.
func Purge(ctx context.Context, rdb redis.UniversalClient, sessions []string, batch int, archiveTTL time.Duration) []Batch {
	at := time.Now()
	return batches(purgeScript.Each(ctx, rdb, len(sessions), func(i int) ([]string, []any) {
		return Keys(sessions[i], "", at), []any{rediskey.For(sessions[i]).TaskPrefix(), batch, int64(archiveTTL / time.Second)}
	}))
}

// Trim archives a batch of what is over the cap of each session's line. lua/trim.lua.
func (c Config) Trim(ctx context.Context, rdb redis.UniversalClient, sessions []string) []Batch {
	at := time.Now()
	return batches(trimScript.Each(ctx, rdb, len(sessions), func(i int) ([]string, []any) {
		s := sessions[i]
		return Keys(s, "", at), []any{rediskey.For(s).TaskPrefix(), rediskey.IDPrefix(s), c.LineMost(), c.eventLimits(), c.Limits.Task()}
	}))
}

// Batch is what one call has done in one session.
type Batch struct {
	N    int
	More bool // call again
	Err  error
}

func batches(replies []*script.Call) []Batch {
	all := make([]Batch, len(replies))
	for i, r := range replies {
		all[i] = Batch{int(r.Result.Int(0)), r.Result.Int(1) == 1, r.Err}
	}
	return all
}

// Forget deletes the record of a session that was not used for ttl. lua/forget.lua.
func Forget(ctx context.Context, rdb script.Client, sessionKey, sessionID string, now time.Time, ttl time.Duration) (gone bool, err error) {
	k := rediskey.For(sessionKey)
	a, err := forgetScript.Run(ctx, rdb, append(Keys(sessionKey, sessionID, now), k.State()), k.TaskPrefix(), ttl.Milliseconds())
	return a.Bool(0), err
}
