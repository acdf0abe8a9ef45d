package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/record"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// RunningTurn is the running turn, as far as it is stored.
type RunningTurn struct {
	ID       string
	Messages []session.Message // only the ID is set of one that cannot be read
	Events   []session.Event   // in order; the stream may have lost the first ones
	Reply    string            // so far: the text since the last tool
}

// eventsBack is how many entries of a stream one command reads, from its end.
const eventsBack = 200

// Turn returns the running turn, zero if none runs. It makes several reads, so the turn may end
// meanwhile.
func (s *Session) Turn(ctx context.Context) (t RunningTurn, err error) {
	if err := session.ValidateKey(s.key); err != nil {
		return t, err
	}
	info, err := record.Info(ctx, s.admin.rdb, s.key)
	if err != nil {
		return t, err
	}
	if info.Phase == session.PhaseIdle {
		return t, nil
	}
	t.ID = info.Turn
	if t.Messages, err = s.messages(ctx, info.Messages); err != nil {
		return t, fmt.Errorf("read the messages of turn %s: %w", info.Turn, err)
	}
	if t.Events, err = s.eventsOf(ctx, info); err != nil {
		return t, fmt.Errorf("read the events of turn %s: %w", info.Turn, err)
	}
	var text strings.Builder
	for _, e := range t.Events {
		switch e.Type {
		case session.EventText:
			text.WriteString(e.Text)
		case session.EventToolStart:
			text.Reset()
		}
	}
	t.Reply = text.String()
	return t, nil
}

// messages reads the messages with these IDs. Their texts may be gone meanwhile.
func (s *Session) messages(ctx context.Context, ids []string) (list []session.Message, err error) {
	for some := range slices.Chunk(s.taskIDs(ids), messageBatch) {
		tasks := make([]*redis.StringCmd, len(some))
		_, err := s.admin.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range some {
				tasks[i] = p.HGet(ctx, s.keys().Task(id), "msg")
			}
			return nil
		})
		if err != nil && err != redis.Nil { //nolint:errorlint // the pipeline returns the Nil of a missing task as it is
			return list, err
		}
		for i, id := range some {
			m, _, _ := s.message(id, tasks[i].Val()) // a message that cannot be read has no text
			list = append(list, m)
		}
	}
	return list, nil
}

// message reads the message of a task, and why its last turn failed. The ID is set after an error, too.
func (s *Session) message(taskID, text string) (m session.Message, failure string, err error) {
	task, err := protocol.ParseTaskMessage([]byte(text))
	if err == nil {
		var said wire.Message
		said, err = task.Message(s.admin.cfg.Limits)
		m = said.Said()
	}
	m.ID = protocol.MessageID(rediskey.IDPrefix(s.key), taskID)
	return m, task.Failure, err
}

// eventsOf reads the running turn's events, from the stream's end back to its first run's start.
func (s *Session) eventsOf(ctx context.Context, info session.Info) ([]session.Event, error) {
	events, _, err := stream.Back(info.Turn, info.StartedAt, "+", func(to string) ([]redis.XMessage, error) {
		return s.admin.rdb.XRevRangeN(ctx, s.keys().Events(), to, "-", eventsBack).Result()
	})
	return stream.Standing(events), err
}
