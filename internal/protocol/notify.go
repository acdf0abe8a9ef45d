package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// senderEvents are the limits of the event stream for events of senders, which do not know
// Config.EventsCap. The cap bounds the stream of a session without an owner; the owner's next
// event trims the stream to EventsCap.
func senderEvents() []any { return []any{"events_cap", 100_000, "short", 0, "large_bytes", 0} }

// Notify notifies the session's owner of a message that asynq has stored, or finds that there is no
// owner. lua/notify.lua.
type Notify struct {
	Session string
	Message session.Message
	Nonce   string // of this Submit, also in the task's header
	Known   bool   // asynq found a task with the message's id
	Limits  session.Limits
	LineCap int
}

// Notified is the result of Notify.
type Notified struct {
	Now   int64  // Redis' clock, ms
	State string // of the message, or why it was refused: see lua/notify.lua
	N     int64  // its position, its time (ms), or the cap
	Own   bool   // the task was stored by this Submit
}

func (n Notify) encode() (keys []string, args []any, err error) {
	entry, err := followupEntry(n.Message)
	if err != nil {
		return nil, nil, err
	}
	k := rediskey.For(n.Session)
	return notifyMove.keys(Keys(n.Session, "", time.Now()), k.Call(n.Nonce)), notifyMove.args(append(senderEvents(),
		"task", k.TaskPrefix(), "prefix", rediskey.IDPrefix(n.Session), "longest", TaskMost(n.Limits),
		"session", n.Session, "id", rediskey.TaskID(n.Session, n.Message.ID), "nonce", n.Nonce, "followup", entry,
		"mode", string(n.Message.Mode), "found", n.Known, "line_cap", n.LineCap,
	)...), nil
}

// Do calls the script.
func (n Notify) Do(ctx context.Context, rdb script.Client) (Notified, error) {
	keys, args, err := n.encode()
	if err != nil {
		return Notified{}, err
	}
	r, err := notifyMove.run(ctx, rdb, keys, args)
	return Notified{Now: r.int("now"), State: r.text("status"), N: r.int("n"), Own: r.is("mine")}, err
}

// followupEntry returns the sender's part of a follow-up, as a JSON object. The script adds mode,
// state, order and arrived_at.
func followupEntry(m session.Message) (string, error) {
	text, err := json.Marshal(struct {
		ID   string `json:"id"`
		Text string `json:"text"`
	}{m.ID, m.Text})
	if err != nil {
		return "", fmt.Errorf("encode follow-up: %w", err)
	}
	return string(text), nil
}
