package protocol

import (
	"context"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// stoppedByUser is the error of a message that the user stopped, as lua/lib/stopped.lua has it.
const stoppedByUser = "stopped by user"

// Cancel ends one message. lua/cancel.lua.
type Cancel struct {
	Session string
	ID      string // the message's
	Running bool   // also if it is part of a turn: end that turn
	Call    string // names this call, so that the script recognizes a repetition
	Until   int64  // ms; after that the call does nothing
	Limits  session.Limits
}

// Cancelled is what a Cancel found: taken, ending, running, ended, unknown or late.
type Cancelled struct {
	State   string
	Outcome session.Outcome // if State is taken or ended
	Wake    bool            // what is left in line may be claimed sooner than the indexes say
	Now     int64           // ms, by Redis' clock
}

// Do makes the call.
func (c Cancel) Do(ctx context.Context, rdb script.Client) (Cancelled, error) {
	k := rediskey.For(c.Session)
	r, err := cancelMove.run(ctx, rdb, cancelMove.keys(Keys(c.Session, "", time.Now()), k.Call(c.Call)), cancelMove.args(append(senderEvents(),
		"task", k.TaskPrefix(), "prefix", rediskey.IDPrefix(c.Session), "longest", TaskMost(c.Limits),
		"id", rediskey.TaskID(c.Session, c.ID), "turn_too", c.Running, "deadline", c.Until,
	)...))
	if err != nil {
		return Cancelled{}, err
	}
	found := Cancelled{State: r.status(), Wake: r.is("wake"), Now: r.int("now")}
	switch found.State {
	case "taken":
		found.Outcome = session.Outcome{Session: c.Session, ID: c.ID, Status: session.StatusStopped, Error: stoppedByUser}
	case "ended":
		found.Outcome = StoredOutcome(c.Session, c.ID, r.text("state"), r.text("result"))
	}
	return found, nil
}
