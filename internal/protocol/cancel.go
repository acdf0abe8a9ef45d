package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// stoppedByUser is the error of a message that the user stopped, as lua/lib/stopped.lua has it.
const stoppedByUser = "stopped by user"

// Cancel ends one message. lua/cancel.lua.
type Cancel struct {
	Session string
	ID      string // the message's
	Running bool   // if it is part of a turn, end that turn
	Call    string // identifies this call, so that the script recognizes a repetition
	Until   int64  // ms; after that the call does nothing
	By      string // who does it, for the audit; "": unknown
	Limits  session.Limits
}

// Cancelled is the result of a Cancel. State is taken, ending, running, ended, unknown or late.
type Cancelled struct {
	State   string
	Outcome session.Outcome // if State is taken or ended
	Wake    bool            // the rest of the queue may be claimed sooner than the indexes say
	Now     int64           // ms, by Redis' clock
}

// Do makes the call.
func (c Cancel) Do(ctx context.Context, rdb script.Client) (Cancelled, error) {
	k := scripts.KeysOf(c.Session, "", time.Now())
	r, err := scripts.Cancel.Run(ctx, rdb, scripts.CancelKeys(k, k.Call(c.Call)), scripts.CancelArgs{
		Prefixes: scripts.PrefixesOf(c.Session), Stream: senderStream, Longest: TaskMost(c.Limits),
		ID: rediskey.TaskID(c.Session, c.ID), By: cutBy(c.By), TurnToo: c.Running, Deadline: c.Until,
	})
	if err != nil {
		return Cancelled{}, err
	}
	found := Cancelled{State: string(r.Status), Wake: r.Wake, Now: r.Now}
	switch r.Status {
	case scripts.Taken:
		found.Outcome = session.Outcome{Session: c.Session, ID: c.ID, Status: session.StatusStopped, Error: stoppedByUser}
	case scripts.Ended:
		found.Outcome = stream.StoredOutcome(c.Session, c.ID, r.State, r.Result)
	}
	return found, nil
}
