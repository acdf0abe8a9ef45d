package protocol

import (
	"context"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Undo removes a session's last turn from its transcript. lua/undo.lua.
type Undo struct {
	Session      string
	TranscriptID string
	Turn         string        // the ID of that turn
	Entries      int           // how many it has
	Length       int64         // of the transcript when it was read
	Written      int64         // entries written to the transcript by then
	Messages     []string      // IDs of the turn's messages
	Again        *wire.Message // a message to put at the head of the queue; nil: none
	By           string        // who does it, for the audit; "": unknown
	Limits       session.Limits
}

// UndoResult is the result of Undo.
type UndoResult struct {
	State   string // ok, held (the session has an owner), unsaid (the last message failed or was stopped) or changed (read the transcript again)
	Entries int    // removed
	Now     int64  // Redis' clock, ms
}

// Do calls the script.
func (u Undo) Do(ctx context.Context, rdb script.Client) (UndoResult, error) {
	id, task := "", []byte(nil)
	tasks := make([]string, len(u.Messages))
	for i, m := range u.Messages {
		tasks[i] = rediskey.TaskID(u.Session, m)
	}
	if u.Again != nil {
		payload, err := u.Again.Encode(u.Limits)
		if err != nil {
			return UndoResult{}, err
		}
		task = encodeTask(u.Session, u.Again.ID, payload, "", "")
		id = rediskey.TaskID(u.Session, u.Again.ID)
	}
	k := scripts.KeysOf(u.Session, u.TranscriptID, time.Now())
	r, err := scripts.Undo.Run(ctx, rdb, scripts.UndoKeys(k, k.Call("undo-"+u.Turn)), scripts.UndoArgs{
		Prefixes: scripts.PrefixesOf(u.Session), By: cutBy(u.By), Turn: u.Turn, ID: id, Msg: string(task), SID: u.TranscriptID,
		Entries: int64(u.Entries), Length: u.Length, Written: u.Written, Messages: tasks,
	})
	return UndoResult{State: string(r.Status), Entries: int(r.Removed), Now: r.Now}, err
}
