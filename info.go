package turnstile

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/record"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// Info reads the session's state in one round trip. An unknown session is idle and empty. The error wraps
// session.ErrBroken if a key has a wrong type.
func (s *Session) Info(ctx context.Context) (session.Info, error) {
	if err := session.ValidateKey(s.key); err != nil {
		return session.Info{}, err
	}
	return record.Info(ctx, s.c.rdb, s.key)
}

// StoredMessage is a message as it is stored.
type StoredMessage struct {
	session.Message
	State session.MessageState

	// AcceptedAt is when the message was accepted, by Redis' clock. A rerun accepts it again. Zero:
	// unknown, because an asynq.Client stored the message and no turn has taken it.
	AcceptedAt time.Time

	// Outcome is nil until the message ends. Its EndedAt is in whole seconds.
	Outcome *session.Outcome
	EndedAt time.Time
}

// Message returns a message that is stored: it waits, runs, or its result is kept. The error wraps
// session.ErrNotFound if it is not.
func (s *Session) Message(ctx context.Context, id string) (m StoredMessage, err error) {
	read := s.c.rdb.HMGet(ctx, rediskey.For(s.key).Task(rediskey.TaskID(s.key, id)), "state", "result", "msg", "seen", "arrived")
	if err := read.Err(); err != nil {
		return m, fmt.Errorf("read message %s of %s: %w", id, s.key, err)
	}
	task := script.HashFields(read)
	state := task.Text("state")
	if state == "" {
		return m, s.notFound(id)
	}
	stored, err := protocol.ParseTaskMessage([]byte(task.Text("msg")))
	if err == nil {
		var said wire.Message
		if said, err = wire.Decode(stored.Payload(), s.c.cfg.Limits); err == nil { // else it is a dead letter
			m.Message = said.Said()
		}
	}
	m.ID, m.EndedAt, m.AcceptedAt = id, stored.Ended, acceptedAt(task)
	switch m.State = session.MessageState(state); state {
	case "completed", "archived":
		o := stream.StoredOutcome(s.key, id, state, task.Text("result"))
		m.Outcome = &o
	case "active":
		m.State = session.MessageRunning
	}
	return m, nil
}

func acceptedAt(task script.Fields) time.Time {
	for _, at := range []string{task.Text("seen"), task.Text("arrived")} {
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil {
			return time.UnixMilli(ms)
		}
	}
	return time.Time{}
}
