package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/scripts"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Undo removes a session's last turn from its transcript, and its dead letters. lua/undo.lua.
type Undo struct {
	Session      string
	TranscriptID string
	Turn         string        // the ID of that turn
	Entries      int           // how many it has; 0: it is Unsaid's
	Unsaid       string        // Unsaid.Stored, when the transcript was read
	Length       int64         // of the transcript when it was read
	Written      int64         // entries written to the transcript by then
	Messages     []string      // IDs of the turn's messages
	Again        *wire.Message // a message to put at the head of the queue; nil: none
	By           string        // who does it, for the audit; "": unknown
	Limits       session.Limits
}

// UndoResult is the result of Undo.
type UndoResult struct {
	State   string // ok, held (the session has an owner) or changed (look again)
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
	k, call := scripts.KeysOf(u.Session, u.TranscriptID, time.Now()), "undo-"+u.Turn
	if u.Entries == 0 { // a turn may have entries, and an unsaid message after it
		call = "retry-" + u.Unsaid
	}
	r, err := scripts.Undo.Run(ctx, rdb, scripts.UndoKeys(k, k.Call(call)), scripts.UndoArgs{
		Prefixes: scripts.PrefixesOf(u.Session), By: cutBy(u.By), Turn: u.Turn, ID: id, Msg: string(task), SID: u.TranscriptID,
		Entries: int64(u.Entries), Length: u.Length, Written: u.Written, Unsaid: u.Unsaid, Messages: tasks,
	})
	return UndoResult{State: string(r.Status), Entries: int(r.Removed), Now: r.Now}, err
}

// Unsaid is the last turn that failed or was stopped without entries, or the last message that was stopped while it
// waited.
type Unsaid struct {
	Stored       string // the run record's field
	Fence        int64  // of the turn, or of the last one by then
	TranscriptID string // of the session's last turn
	Messages     []wire.Message
	Invalid      error // why one of them cannot run again
}

// ReadUnsaid returns the session's Unsaid. It has only those messages that are still dead letters.
func ReadUnsaid(ctx context.Context, rdb redis.UniversalClient, sessionKey string, l session.Limits) (u Unsaid, err error) {
	k := rediskey.For(sessionKey)
	read := rdb.HMGet(ctx, k.Run(), "unsaid", "fence", "sid", "ids")
	if err := read.Err(); err != nil {
		return u, fmt.Errorf("read session %s: %w", sessionKey, err)
	}
	run := script.HashFields(read)
	u.Stored, u.TranscriptID = run.Text("unsaid"), run.Text("sid")
	fence, id, ok := strings.Cut(u.Stored, " ")
	if !ok {
		return u, nil
	}
	u.Fence = script.Number(fence)
	ids := []string{id}
	var turn []string
	if json.Unmarshal([]byte(run.Text("ids")), &turn) == nil && run.Text("fence") == fence && slices.Contains(turn, id) {
		ids = turn
	}
	err = EachTask(ctx, rdb, sessionKey, ids, func(i int, t script.Fields) bool {
		var end session.Event
		if t.Text("state") != "archived" || json.Unmarshal([]byte(t.Text("result")), &end) != nil || !canRerun(end) {
			return true
		}
		task, err := ParseTaskMessage([]byte(t.Text("msg")))
		var m wire.Message
		if err == nil {
			m, err = task.Message(l)
		}
		u.Invalid = errors.Join(u.Invalid, err)
		m.ID = MessageID(rediskey.IDPrefix(sessionKey), ids[i])
		u.Messages = append(u.Messages, m)
		return true
	}, "msg", "state", "result")
	if err != nil {
		return u, fmt.Errorf("read the last messages of %s: %w", sessionKey, err)
	}
	return u, nil
}

// canRerun reports whether /retry runs a message that ended so. A rolled back one has been replaced.
func canRerun(end session.Event) bool {
	switch end.Status {
	case session.StatusFailed, session.StatusStopped:
		return true
	}
	return end.Status == session.StatusInterrupted && !strings.HasPrefix(end.Error, "rolled back")
}
