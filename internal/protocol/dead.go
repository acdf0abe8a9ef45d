package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Discard deletes those of the tasks that are dead letters, and returns how many. lua/discard.lua.
func Discard(ctx context.Context, rdb script.Client, sessionKey string, taskIDs []string) (n int, err error) {
	return discard(ctx, rdb, sessionKey, rediskey.For(sessionKey).Archived(), taskIDs)
}

// DiscardResult deletes a task whose result is kept, and reports whether it was. The script is the same: it
// deletes tasks that are in a list of ended ones.
func DiscardResult(ctx context.Context, rdb script.Client, sessionKey, taskID string) (bool, error) {
	n, err := discard(ctx, rdb, sessionKey, rediskey.For(sessionKey).Completed(), []string{taskID})
	return n > 0, err
}

func discard(ctx context.Context, rdb script.Client, sessionKey, list string, taskIDs []string) (n int, err error) {
	r, err := scripts.Discard.Run(ctx, rdb, []string{list}, scripts.DiscardArgs{Task: rediskey.For(sessionKey).TaskPrefix(), IDs: taskIDs})
	return int(r.Discarded), err
}

// Rerun puts dead letters back at the end of the queue. lua/rerun.lua.
type Rerun struct {
	Session string
	Call    string // identifies this call, so that the script recognizes a repetition
	By      string // who does it, for the audit; "": unknown
	LineCap int
	Letters []DeadTask // in the order in which they run
}

// DeadTask identifies a dead letter by its task ID and its stored time of arrival. A task with
// another time by now is skipped.
type DeadTask struct{ ID, Arrived string }

// Do returns how many it put back, and Redis' clock in ms.
func (r Rerun) Do(ctx context.Context, rdb script.Client) (n int, now int64, err error) {
	k := scripts.KeysOf(r.Session, "", time.Now())
	ids, arrived := make([]string, len(r.Letters)), make([]string, len(r.Letters))
	for i, d := range r.Letters {
		ids[i], arrived[i] = d.ID, d.Arrived
	}
	back, err := scripts.Rerun.Run(ctx, rdb, scripts.RerunKeys(k, k.Call(r.Call)), scripts.RerunArgs{
		Prefixes: scripts.PrefixesOf(r.Session), Statuses: string(session.StatusStopped) + " " + string(session.StatusFailed), LineCap: int64(r.LineCap),
		By: cutBy(r.By), IDs: ids, Arrived: arrived,
	})
	return int(back.Moved), back.Now, err
}
