package protocol

import (
	"context"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Rerun puts dead letters back at the end of the line. lua/rerun.lua.
type Rerun struct {
	Session string
	Call    string // names this call, so that the script recognizes a repetition
	LineCap int
	Letters []DeadTask // in the order in which they run
}

// DeadTask names a dead letter by its task id and, as stored, its time of arrival. A task that has
// another time by now is skipped.
type DeadTask struct{ ID, Arrived string }

// Do returns how many it put back, and Redis' clock in ms.
func (r Rerun) Do(ctx context.Context, rdb script.Client) (n int, now int64, err error) {
	k := rediskey.For(r.Session)
	ids, arrived := make([]string, len(r.Letters)), make([]string, len(r.Letters))
	for i, d := range r.Letters {
		ids[i], arrived[i] = d.ID, d.Arrived
	}
	back, err := rerunMove.run(ctx, rdb, rerunMove.keys(Keys(r.Session, "", time.Now()), k.Call(r.Call)), rerunMove.args(
		"task", k.TaskPrefix(), "prefix", rediskey.IDPrefix(r.Session), "statuses", string(session.StatusStopped)+" "+string(session.StatusFailed), "line_cap", r.LineCap,
		"ids", ids, "arrived", arrived,
	))
	return int(back.int("moved")), back.int("now"), err
}
