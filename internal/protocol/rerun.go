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
