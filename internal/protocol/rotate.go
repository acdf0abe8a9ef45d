package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
)

// Rotate gives a session a new transcript. lua/rotate.lua.
type Rotate struct {
	Session string
	Old     string // the one to replace; "": any
	Until   int64  // ms; after that the script does nothing
	Agent   string // of the new transcript; "": the same
	By      string // who does it, for the audit; "": unknown
}

// Rotated is the result of a Rotate.
type Rotated struct {
	ID   string // of the transcript that is current then
	Late bool   // the call came after Until
	Wake bool   // a parked turn is to end: the session is to be claimed
}

// Do makes the call.
func (r Rotate) Do(ctx context.Context, rdb script.Client) (Rotated, error) {
	call := scripts.Rotate.Call(scripts.RotateKeys(scripts.KeysOf(r.Session, "", time.Now())),
		scripts.RotateArgs{FreshSID: newTranscriptID(), SID: r.Old, Deadline: r.Until, Agent: r.Agent, By: cutBy(r.By)})
	call.Run(ctx, rdb)
	now := scripts.Rotate.Result(call)
	late := now.Changed < 0
	if late && r.Old == "" && call.Unsure { // it may be another call's ID
		return Rotated{}, redisconn.ErrUnsure
	}
	return Rotated{now.SID, late, now.Wake}, call.Err
}
