package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
	"turnstile/internal/text/printable"
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
	Cut       bool         // from FollowUps: Text is only the beginning of a longer one
}

// Queue visits the messages that wait, in order, then those that are delayed or retried, the next
// one that is due first, then those steered into the running turn. It reads the IDs at once and the
// texts 2 MiB at a time, or one that is longer. It leaves out messages that ended meanwhile.
func (s *Session) Queue(ctx context.Context) iter.Seq2[QueuedMessage, error] {
	return visited(s.key, func(visit func(QueuedMessage) bool) error { return s.eachQueued(ctx, visit) })
}

func (s *Session) eachQueued(ctx context.Context, visit func(QueuedMessage) bool) error {
	places, err := s.queued(ctx)
	if err == nil {
		ids := make([]string, len(places))
		for i, m := range places {
			ids[i] = m.ID
		}
		err = protocol.EachTask(ctx, s.admin.rdb, s.key, s.taskIDs(ids), func(i int, t script.Fields) bool {
			m, ok := s.readQueued(places[i], t)
			return !ok || visit(m)
		}, "msg", "state", "seen", "seq")
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
	followUps, err := s.followUps(ctx, 0)
	if err != nil {
		return nil, err
	}
	_, err = s.admin.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		pending = p.LRange(ctx, k.Pending(), 0, -1)
		scheduled, retried = p.ZRangeWithScores(ctx, k.Scheduled(), 0, -1), p.ZRangeWithScores(ctx, k.Retry(), 0, -1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list, steered, delayed []QueuedMessage
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

// readQueued completes a message with its task. ok is false if it has ended.
func (s *Session) readQueued(m QueuedMessage, t script.Fields) (_ QueuedMessage, ok bool) {
	if !t.Has("seen") && !t.Has("seq") && !m.ArrivedAt.IsZero() { // as in present
		m = QueuedMessage{Message: session.Message{ID: m.ID}, State: session.MessagePending}
	}
	switch state := t.Text("state"); {
	case state == "", state == "archived", state == "completed", state == "active" && m.State != session.MessageSteered:
		return m, false
	}
	m.Message, m.Error, _ = s.message(rediskey.TaskID(s.key, m.ID), t.Text("msg"))
	return m, true
}

// FollowUps returns the messages that arrived while the session's turn was running and that have not
// ended, oldest first: at most session.QueueSettings.Cap, with IDs and the beginnings of their texts only, see
// QueuedMessage.Cut. A text has at most 4 KiB, and all together a little more than 1 MiB. It reads no other message,
// however long the queue is.
func (s *Session) FollowUps(ctx context.Context) ([]QueuedMessage, error) {
	if err := session.ValidateKey(s.key); err != nil {
		return nil, err
	}
	list, err := s.followUps(ctx, printable.HeadMost)
	if err == nil {
		list, err = s.present(ctx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("read follow-ups of %s: %w", s.key, broken(err))
	}
	return list, nil
}

const (
	// textHeads is how many bytes of texts FollowUps returns, and up to followUpsCall texts more.
	textHeads = 1 << 20

	// followUpHead is enough bytes for a stored follow-up without its text, which is its last field.
	followUpHead = 512

	// followUpsCall is how many follow-ups a round trip reads.
	followUpsCall = 100
)

// followUps reads the stored follow-ups, oldest first, with at most so many bytes of each text.
func (s *Session) followUps(ctx context.Context, most int) (list []QueuedMessage, err error) {
	ids, err := s.admin.rdb.HKeys(ctx, s.keys().Followups()).Result()
	slices.Sort(ids)
	for some, total := ids, 0; len(some) > 0 && err == nil; some = some[min(len(some), followUpsCall):] {
		if total > textHeads {
			most = 0
		}
		var wanted []protocol.Wanted
		for _, id := range some[:min(len(some), followUpsCall)] {
			wanted = append(wanted, protocol.Wanted{Field: id, Most: followUpHead + most})
		}
		err = protocol.EachText(ctx, s.admin.rdb, s.key, wanted, func(t protocol.Text) bool {
			// An entry that cannot be read is left out; its message still waits in asynq.
			if m, ok := followUpOf(wanted[0].Field, t, most); ok {
				list, total = append(list, m), total+len(m.Text)
			}
			wanted = wanted[1:]
			return true
		})
	}
	slices.SortFunc(list, func(x, y QueuedMessage) int {
		return cmp.Or(x.ArrivedAt.Compare(y.ArrivedAt), cmp.Compare(x.Position, y.Position))
	})
	return list, err
}

// followUpOf decodes a stored follow-up, or its beginning, with at most so many bytes of its text.
func followUpOf(id string, stored protocol.Text, most int) (m QueuedMessage, ok bool) {
	var f struct {
		Text      string
		Mode      session.Mode
		State     string
		Order     int
		ArrivedAt int64 `json:"arrived_at"`
	}
	err, text := json.Unmarshal([]byte(stored.Text), &f), strings.ToValidUTF8(stored.Text, "")
	for n := 0; err != nil && len(stored.Text) < stored.Bytes && n < min(len(text), len(`\u0000`)); n++ {
		err = json.Unmarshal([]byte(text[:len(text)-n]+`"}`), &f) // the text may end in half an escape
	}
	if err != nil {
		return m, false
	}
	m = QueuedMessage{
		Message: session.Message{ID: id}, Mode: f.Mode, State: session.MessageState(f.State), Position: f.Order,
		ArrivedAt: time.UnixMilli(f.ArrivedAt), Cut: len(stored.Text) < stored.Bytes,
	}
	if f.State == "queued" {
		m.State = session.MessagePending
	}
	m.Text = printable.Head(f.Text, most)
	m.Cut = m.Cut || len(m.Text) < len(f.Text)
	return m, true
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
