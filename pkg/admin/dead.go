package admin

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/script"
	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// messageBatch is how many messages of a sender a round trip reads. A text and a reply may have 1 MiB each, or 2.
const messageBatch = 4

// DeadLetter is a message that will not run again by itself. asynq calls it archived.
type DeadLetter struct {
	session.Message // only its ID is set if it cannot be read

	Session string
	Outcome session.Outcome // Status and Error say why it is a dead letter
	At      time.Time       // when it was archived, by Redis' clock, in whole seconds
	Age     time.Duration   // time since At
	Cut     bool            // from LastDeadLetters: Text is only the beginning of a longer one
}

// DeadLetters visits the dead letters in the order in which they were archived, and within one
// second in the order of their arrival. It reads 2 MiB at a time, or one that is longer.
func (s *Session) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return visited(s.key, func(visit func(DeadLetter) bool) error { return s.eachDead(ctx, visit) })
}

func (s *Session) eachDead(ctx context.Context, visit func(DeadLetter) bool) error {
	all, err := s.admin.deadPlaces(ctx, s.keys(), nil)
	slices.SortFunc(all, func(x, y deadPlace) int { // within a second in the order of Rerun
		return cmp.Or(cmp.Compare(x.second, y.second), byArrival(x, y))
	})
	all = slices.CompactFunc(all, func(x, y deadPlace) bool { return x.id == y.id && x.second == y.second }) // read twice
	if err == nil {
		err = s.readDead(ctx, all, visit)
	}
	return s.deadError(err)
}

func (s *Session) deadError(err error) error {
	if err != nil {
		return fmt.Errorf("read dead letters of %s: %w", s.key, broken(err))
	}
	return nil
}

// LastDeadLetters returns the n newest dead letters, newest first. Their messages have at most 4 KiB of the text, and no
// attachments.
func (s *Session) LastDeadLetters(ctx context.Context, n int) ([]DeadLetter, error) {
	if err := session.ValidateKey(s.key); err != nil || n < 1 {
		return nil, err
	}
	members, err := s.admin.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: s.keys().Archived(), Start: 0, Stop: n - 1, Rev: true}).Result()
	places := make([]deadPlace, len(members))
	for i, m := range members {
		id, _ := m.Member.(string)
		places[i] = deadPlace{id: id, second: int64(m.Score)}
	}
	var list []DeadLetter
	if err == nil {
		err = s.readDead(ctx, places, func(d DeadLetter) bool {
			list = append(list, d.head())
			return true
		})
	}
	return list, s.deadError(err)
}

// head returns the dead letter with the beginning of its text, and without attachments.
func (d DeadLetter) head() DeadLetter {
	text := printable.Head(d.Text, printable.HeadMost)
	d.Cut = d.Cut || len(text) < len(d.Text)
	d.Message = session.Message{ID: d.ID, Text: text, Meta: d.Meta}
	return d
}

// readDead visits the dead letters at some places.
func (s *Session) readDead(ctx context.Context, places []deadPlace, visit func(DeadLetter) bool) error {
	now, err := s.admin.rdb.Time(ctx).Result()
	if err != nil || len(places) == 0 {
		return err
	}
	ids := make([]string, len(places))
	for i, p := range places {
		ids[i] = p.id
	}
	return protocol.EachTask(ctx, s.admin.rdb, s.key, ids, func(i int, t script.Fields) bool {
		if t.Text("state") != "archived" {
			return true // rerun or deleted meanwhile
		}
		d := s.deadLetter(ids[i], t)
		d.At = time.Unix(places[i].second, 0)
		d.Age = max(now.Sub(d.At), 0)
		return visit(d)
	}, "msg", "state", "result")
}

// deadLetter decodes the fields of a task.
func (s *Session) deadLetter(taskID string, t script.Fields) DeadLetter {
	m, failure, err := s.message(taskID, t.Text("msg"))
	d := DeadLetter{Session: s.key, Message: m}
	d.Outcome = stream.StoredOutcome(s.key, d.ID, t.Text("state"), t.Text("result"))
	if d.Outcome.Error == stream.ArchivedByHand && failure != "" {
		d.Outcome.Detail = failure // a stock asynq.Server's
	}
	if err != nil && d.Outcome.Error == "" {
		d.Outcome.Error = err.Error()
	}
	return d
}

// DeleteDeadLetters deletes the dead letters with these message IDs, or All, and returns how many.
// It ignores other messages' IDs. A sender that reads the outcome of a deleted message gets
// session.ErrNotFound. After an error, n or a few more dead letters are deleted.
func (s *Session) DeleteDeadLetters(ctx context.Context, ids ...string) (n int, err error) {
	if err := session.ValidateKey(s.key); err != nil {
		return 0, err
	}
	discard := func(taskIDs []string) error {
		gone, err := protocol.Discard(ctx, s.admin.rdb, s.key, taskIDs)
		n += gone
		return err
	}
	if slices.Contains(ids, All) {
		err = s.admin.deadPages(ctx, s.keys(), func(taskIDs []string, _ []int64) error { return discard(taskIDs) })
	} else {
		for part := range slices.Chunk(s.taskIDs(ids), deadPage) {
			if err = discard(part); err != nil {
				break
			}
		}
	}
	if err != nil {
		return n, fmt.Errorf("delete dead letters of %s: %w", s.key, broken(err))
	}
	return n, nil
}

// taskIDs are the IDs of the messages' asynq tasks.
func (s *Session) taskIDs(ids []string) []string {
	taskIDs := make([]string, len(ids))
	for i, id := range ids {
		taskIDs[i] = rediskey.TaskID(s.key, id)
	}
	return taskIDs
}
