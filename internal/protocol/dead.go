package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// deadBatch is how many dead letters are read in a round trip: a text may have a
// megabyte.
const deadBatch = 20

// DeadLetter is a message that was put aside, in asynq's words archived.
type DeadLetter struct {
	Session string
	ID      string
	Text    string // "" of what is no message
	Outcome Outcome
	At      time.Time     // when it was put aside, by Redis' clock, in whole seconds
	Age     time.Duration // since then
}

// DeadLetters visits a session's dead letters, the oldest first: those that were put
// aside in the same second in the order of their arrival. An error is the last.
func (c *Client) DeadLetters(ctx context.Context, sessionKey string) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		err := session.ValidateKey(sessionKey)
		if err == nil {
			err = c.eachDead(ctx, sessionKey, func(d DeadLetter) bool { return yield(d, nil) })
		}
		if err != nil {
			yield(DeadLetter{}, err)
		}
	}
}

func (c *Client) eachDead(ctx context.Context, sessionKey string, visit func(DeadLetter) bool) error {
	k := rediskey.For(sessionKey)
	all, err := c.deadPlaces(ctx, k, nil)
	slices.SortFunc(all, func(a, b deadPlace) int { // those of a second as /resume runs them
		return cmp.Or(cmp.Compare(a.second, b.second), byArrival(a, b))
	})
	all = slices.CompactFunc(all, func(a, b deadPlace) bool { return a.id == b.id && a.second == b.second }) // read twice
	for err == nil && len(all) > 0 {
		batch := all[:min(len(all), deadBatch)]
		all = all[len(batch):]
		tasks := make([]*redis.SliceCmd, len(batch))
		var now *redis.TimeCmd
		_, err = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			now = p.Time(ctx)
			for i, place := range batch {
				tasks[i] = p.HMGet(ctx, k.Task(place.id), "msg", "state", "result")
			}
			return nil
		})
		if err != nil {
			break
		}
		for i, place := range batch {
			t := answer(tasks[i].Val())
			if t.str(1) != "archived" {
				continue // run again or deleted meanwhile
			}
			d := deadLetter(sessionKey, place.id, t, c.cfg.Limits)
			d.At = time.Unix(place.second, 0)
			d.Age = max(now.Val().Sub(d.At), 0)
			if !visit(d) {
				return nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("read dead letters of %s: %w", sessionKey, err)
	}
	return nil
}

// deadLetter reads {msg, state, result} of a task.
func deadLetter(sessionKey, taskID string, t answer, limits session.Limits) DeadLetter {
	d := DeadLetter{Session: sessionKey, ID: messageID(session.IDPrefix(sessionKey), taskID)}
	task, err := parseTaskMessage([]byte(t.str(0)))
	if err == nil {
		var m session.Message
		m, err = task.message(limits)
		d.Text = m.Text
	}
	d.Outcome = storedOutcome(sessionKey, d.ID, t.str(1), t.str(2))
	if d.Outcome.Error == archivedByHand && task.failure != "" {
		d.Outcome.Error = task.failure // a stock asynq.Server's
	}
	if err != nil && d.Outcome.Error == "" {
		d.Outcome.Error = err.Error()
	}
	return d
}

// errEnough ends a walk whose caller has seen enough.
var errEnough = errors.New("enough")

// WithDeadLetters visits the sessions that have dead letters, each once and in no
// order. It looks at every session that is known, in batches. An error is the
// last.
func (c *Client) WithDeadLetters(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		w, seen := walker{rdb: c.rdb}, map[string]bool{} // a scan may come by twice
		visit := func(sessions []string) error {
			dead, err := w.withTasks(ctx, sessions, rediskey.Session.Archived)
			for _, s := range dead {
				if !seen[s] && !yield(s, nil) {
					return errEnough
				}
				seen[s] = true
			}
			return err
		}
		err := w.everySession(ctx, visit)
		if err != nil && !errors.Is(err, errEnough) {
			yield("", fmt.Errorf("look for dead letters: %w", err))
		}
	}
}

// DropDeadLetters deletes the dead letters with these ids, or without ids all of
// a session's, and answers how many there were. They are gone for good: their
// senders find no outcome any more. An id that names none is passed over.
func (c *Client) DropDeadLetters(ctx context.Context, sessionKey string, ids ...string) (n int, err error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return 0, err
	}
	if n, err = c.dropDead(ctx, sessionKey, ids); err != nil {
		return n, fmt.Errorf("drop dead letters of %s: %w", sessionKey, err)
	}
	return n, nil
}

func (c *Client) dropDead(ctx context.Context, sessionKey string, ids []string) (n int, err error) {
	k := rediskey.For(sessionKey)
	discard := func(taskIDs []string) error {
		args := make([]any, 0, 1+len(taskIDs))
		args = append(args, k.TaskPrefix())
		for _, id := range taskIDs {
			args = append(args, id)
		}
		reply, err := run(ctx, c.rdb, discardScript(), keys(sessionKey, "", time.Now()), args...)
		n += int(reply.int(0))
		return err
	}
	if len(ids) == 0 {
		err = c.deadPages(ctx, k, func(taskIDs []string, _ []int64) error { return discard(taskIDs) })
		return n, err
	}
	for part := range slices.Chunk(ids, deadPage) {
		taskIDs := make([]string, len(part))
		for i, id := range part {
			taskIDs[i] = session.TaskID(sessionKey, id)
		}
		if err := discard(taskIDs); err != nil {
			return n, err
		}
	}
	return n, nil
}
