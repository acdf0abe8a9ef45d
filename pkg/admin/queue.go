package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// QueuedMessage is a message that waits, also for a time, or was steered into the running turn.
type QueuedMessage struct {
	session.Message // only its ID is set if it cannot be read

	State     session.MessageState
	Mode      session.Mode // "" unless it arrived while a turn ran
	ArrivedAt time.Time    // zero unless it arrived while a turn ran
	Position  int          // in the queue when it arrived; the running turn is 1
	Due       time.Time    // of a delayed one or a retry
	Error     string       // of a retry: why the previous turn failed
}

// Queue visits the messages that wait, in order, then those that are delayed or retried, the next
// one that is due first, then those steered into the running turn. It reads the IDs at once and 20
// texts at a time. It leaves out messages that ended meanwhile.
func (s *Session) Queue(ctx context.Context) iter.Seq2[QueuedMessage, error] {
	return visited(s.key, func(visit func(QueuedMessage) bool) error { return s.eachQueued(ctx, visit) })
}

func (s *Session) eachQueued(ctx context.Context, visit func(QueuedMessage) bool) error {
	places, err := s.queued(ctx)
	for some := range slices.Chunk(places, messageBatch) {
		if err = s.readQueued(ctx, some); err != nil {
			break
		}
		for _, m := range some {
			if m.State != "" && !visit(m) {
				return nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("read the queue of %s: %w", s.key, broken(err))
	}
	return nil
}

// queued returns the messages without their texts.
func (s *Session) queued(ctx context.Context) ([]QueuedMessage, error) {
	k, prefix := s.keys(), rediskey.IDPrefix(s.key)
	var pending *redis.StringSliceCmd
	var scheduled, retried *redis.ZSliceCmd
	var arrived *redis.MapStringStringCmd
	_, err := s.admin.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		pending = p.LRange(ctx, k.Pending(), 0, -1)
		scheduled, retried = p.ZRangeWithScores(ctx, k.Scheduled(), 0, -1), p.ZRangeWithScores(ctx, k.Retry(), 0, -1)
		arrived = p.HGetAll(ctx, k.Followups())
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list, steered, delayed []QueuedMessage
	followUps := followUpsOf(arrived.Val())
	for _, m := range followUps {
		if m.State == session.MessageSteered {
			steered = append(steered, m)
		}
	}
	for _, id := range slices.Backward(pending.Val()) { // the head is its end
		id = protocol.MessageID(prefix, id)
		m := QueuedMessage{State: session.MessagePending}
		if i := slices.IndexFunc(followUps, func(f QueuedMessage) bool { return f.ID == id }); i >= 0 {
			m = followUps[i]
		}
		if m.ID = id; m.State != session.MessageSteered {
			list = append(list, m)
		}
	}
	add := func(members []redis.Z, state session.MessageState) {
		for _, z := range members {
			id, _ := z.Member.(string)
			m := QueuedMessage{State: state, Due: time.Unix(int64(z.Score), 0)}
			m.ID = protocol.MessageID(prefix, id)
			delayed = append(delayed, m)
		}
	}
	add(scheduled.Val(), session.MessageScheduled)
	add(retried.Val(), session.MessageRetry)
	slices.SortStableFunc(delayed, func(x, y QueuedMessage) int { return x.Due.Compare(y.Due) })
	return slices.Concat(list, delayed, steered), nil
}

// readQueued reads the texts of messages, in one round trip. A message that ended gets no State.
func (s *Session) readQueued(ctx context.Context, list []QueuedMessage) error {
	tasks := make([]*redis.SliceCmd, len(list))
	_, err := s.admin.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, m := range list {
			tasks[i] = p.HMGet(ctx, s.keys().Task(rediskey.TaskID(s.key, m.ID)), "msg", "state", "seen", "seq")
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range list {
		m, t := &list[i], script.HashFields(tasks[i])
		if !t.Has("seen") && !t.Has("seq") && !m.ArrivedAt.IsZero() { // as in present
			*m = QueuedMessage{Message: session.Message{ID: m.ID}, State: session.MessagePending}
		}
		switch state := t.Text("state"); {
		case state == "", state == "archived", state == "completed", state == "active" && m.State != session.MessageSteered:
			m.State = ""
			continue
		}
		m.Message, m.Error, _ = s.message(rediskey.TaskID(s.key, m.ID), t.Text("msg"))
	}
	return nil
}

// FollowUps returns the messages that arrived while the session's turn was running and that have not
// ended, oldest first: at most session.QueueSettings.Cap, with IDs and texts only. It reads no other
// message, however long the queue is.
func (s *Session) FollowUps(ctx context.Context) ([]QueuedMessage, error) {
	if err := session.ValidateKey(s.key); err != nil {
		return nil, err
	}
	stored, err := s.admin.rdb.HGetAll(ctx, s.keys().Followups()).Result()
	var list []QueuedMessage
	if err == nil {
		list, err = s.present(ctx, followUpsOf(stored))
	}
	if err != nil {
		return nil, fmt.Errorf("read follow-ups of %s: %w", s.key, broken(err))
	}
	return list, nil
}

// followUpsOf decodes stored follow-ups, oldest first.
func followUpsOf(stored map[string]string) []QueuedMessage {
	var list []QueuedMessage
	for id, text := range stored {
		var f struct {
			Text      string
			Mode      session.Mode
			State     string
			Order     int
			ArrivedAt int64 `json:"arrived_at"`
		}
		// An entry that cannot be read is left out; its message still waits in asynq.
		if json.Unmarshal([]byte(text), &f) != nil {
			continue
		}
		m := QueuedMessage{
			Message: session.Message{ID: id, Text: f.Text}, Mode: f.Mode, State: session.MessageState(f.State), Position: f.Order,
			ArrivedAt: time.UnixMilli(f.ArrivedAt),
		}
		if f.State == "queued" {
			m.State = session.MessagePending
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(x, y QueuedMessage) int {
		return cmp.Or(x.ArrivedAt.Compare(y.ArrivedAt), cmp.Compare(x.Position, y.Position))
	})
	return list
}

// present keeps the follow-ups with a task that waits or runs: an operator may have deleted or
// archived the others. If no sender has notified workers of a task, it has neither seen nor seq,
// and the entry is from an earlier message with the same ID.
func (s *Session) present(ctx context.Context, list []QueuedMessage) ([]QueuedMessage, error) {
	tasks := make([]*redis.SliceCmd, len(list))
	_, err := s.admin.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, m := range list {
			tasks[i] = p.HMGet(ctx, s.keys().Task(rediskey.TaskID(s.key, m.ID)), "state", "seen", "seq")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	kept := list[:0]
	for i, m := range list {
		t := script.HashFields(tasks[i])
		if state := t.Text("state"); (state == "pending" || state == "active") && (t.Has("seen") || t.Has("seq")) {
			kept = append(kept, m)
		}
	}
	return kept, nil
}
