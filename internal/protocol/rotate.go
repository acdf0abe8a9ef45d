package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/scripts"
	"turnstile/internal/redisconn"
	"turnstile/internal/script"
)

// Rotate gives a session a new transcript. lua/rotate.lua.
type Rotate struct {
	Session string
	Old     string // the one to replace; "": any
	Until   int64  // ms; after that the script does nothing
	Agent   string // of the new transcript; "": the same
	By      string // who does it, for the audit; "": unknown
}

// Do returns the ID of the transcript that is current then. late reports that the call came after
// Until.
func (r Rotate) Do(ctx context.Context, rdb script.Client) (sessionID string, late bool, err error) {
	call := scripts.Rotate.Call(scripts.RotateKeys(scripts.KeysOf(r.Session, "", time.Now())),
		scripts.RotateArgs{FreshSID: newSessionID(), SID: r.Old, Deadline: r.Until, Agent: r.Agent, By: cutBy(r.By)})
	call.Run(ctx, rdb)
	now := scripts.Rotate.Result(call)
	if late = now.Changed < 0; late && r.Old == "" && call.Unsure { // it may be another call's ID
		return "", false, redisconn.ErrUnsure
	}
	return now.SID, late, call.Err
}
