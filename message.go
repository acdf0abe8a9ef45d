package turnstile

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// StoredMessage is a message as it is stored, with its state.
type StoredMessage struct {
	session.Message
	State string // as in MessageState

	// Accepted is when the message was accepted, by Redis' clock, in ms. A rerun accepts it again.
	// Zero: unknown, because an asynq.Client stored the message and no turn has taken it.
	Accepted time.Time

	// Outcome is nil until the message has ended. Ended is when it did, in whole seconds.
	Outcome *session.Outcome
	Ended   time.Time
}

// Message returns a message that is stored: it waits, runs, or its result is kept. The error wraps
// ErrUnknownMessage if it is not.
func (c *Client) Message(ctx context.Context, sessionKey, id string) (m StoredMessage, err error) {
	read := c.rdb.HMGet(ctx, rediskey.For(sessionKey).Task(rediskey.TaskID(sessionKey, id)), "state", "result", "msg", "seen", "arrived")
	if err := read.Err(); err != nil {
		return m, fmt.Errorf("read message %s of %s: %w", id, sessionKey, err)
	}
	task := script.HashFields(read)
	if m.State = task.Text("state"); m.State == "" {
		return m, fmt.Errorf("%w %s of session %s", ErrUnknownMessage, id, sessionKey)
	}
	stored, err := protocol.ParseTaskMessage([]byte(task.Text("msg")))
	if err == nil {
		m.Message, err = c.cfg.Limits.DecodePayload(stored.Payload())
	}
	if err != nil {
		m.Message = session.Message{} // it is a dead letter because it cannot be read
	}
	m.ID, m.Ended = id, stored.Ended
	for _, at := range []string{task.Text("seen"), task.Text("arrived")} {
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil {
			m.Accepted = time.UnixMilli(ms)
			break
		}
	}
	switch m.State {
	case "completed", "archived":
		o := protocol.StoredOutcome(sessionKey, id, m.State, task.Text("result"))
		m.Outcome = &o
	case "active":
		m.State = "running"
	}
	return m, nil
}

// FollowEnd is Follow that also shows the message's end (session.EventTurnEnded), behind the rest of
// its reply, and reads the session's stream from a time on, which is not behind the message's
// acceptance. If the stream has lost the end, it is not shown. An end after which the message ran
// again is shown as well.
func (c *Client) FollowEnd(ctx context.Context, sessionKey, id string, since time.Time, see func(session.Event)) (session.Outcome, error) {
	from := "0"
	if ms := since.Add(-clockSlack).UnixMilli(); ms > 0 {
		from = strconv.FormatInt(ms, 10)
	}
	return c.follow(ctx, sessionKey, from, &watch{id: id, turns: map[string]bool{}, see: see, ends: true})
}

// clockSlack is how much Redis' clock may go back in a failover without FollowEnd missing events.
const clockSlack = time.Minute
