package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/record"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// RunningTurn is the running turn, as far as it is stored.
type RunningTurn struct {
	ID       string
	Messages []TurnMessage
	Events   []session.Event // in order; of those before the last 2 MiB, and that the stream has lost, the first ones are missing
	Reply    string          // so far: the text since the last tool
}

// TurnMessage is a message of the running turn.
type TurnMessage struct {
	session.Message // only its ID is set if it cannot be read

	ArrivedAt time.Time // in the queue, by Redis' clock: a delayed one at its time. Zero if unknown
}

// eventsBack is how many entries of a stream one command reads, from its end, and eventsFirst how many the first one reads:
// they may be long. Beyond eventsMost bytes nothing more is read.
const (
	eventsFirst = 10
	eventsBack  = 200
	eventsMost  = 2 << 20
)

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
func (s *Session) messages(ctx context.Context, ids []string) (list []TurnMessage, err error) {
	tasks := s.taskIDs(ids)
	err = protocol.EachTask(ctx, s.admin.rdb, s.key, tasks, func(i int, t script.Fields) bool {
		var m TurnMessage
		m.Message, _, _ = s.message(tasks[i], t.Text("msg")) // a message that cannot be read has no text
		if ms := t.Int("seen"); ms > 0 {
			m.ArrivedAt = time.UnixMilli(ms).UTC()
		}
		list = append(list, m)
		return true
	}, "msg", "seen")
	return list, err
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
	count, total := int64(eventsFirst), 0
	events, _, err := stream.Back(info.Turn, info.StartedAt, "+", func(to string) ([]redis.XMessage, error) {
		if total > eventsMost {
			return nil, nil
		}
		page, err := s.admin.rdb.XRevRangeN(ctx, s.keys().Events(), to, "-", count).Result()
		bytes := 0
		for _, m := range page {
			for _, value := range m.Values {
				text, _ := value.(string)
				bytes += len(text)
			}
		}
		if total += bytes; bytes < eventsMost/10 {
			count = min(2*count, eventsBack)
		}
		return page, err
	})
	return stream.Standing(events), err
}
