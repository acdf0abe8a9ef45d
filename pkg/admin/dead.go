package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// deadBatch is how many dead letters a round trip reads. A text may have 1 MiB.
const deadBatch = 20

// DeadLetter is a message that will not run again by itself. asynq calls it archived.
type DeadLetter struct {
	Session string
	ID      string          // the message's
	Text    string          // "" if it cannot be read as a message
	Outcome session.Outcome // Status and Error say why it is a dead letter
	At      time.Time       // when it was archived, by Redis' clock, in whole seconds
	Age     time.Duration   // time since At
}

// DeadLetters visits a session's dead letters in the order in which they were archived, and within
// one second in the order of their arrival. It reads 20 at a time. An error comes last, with a zero
// DeadLetter; it wraps session.ErrInvalid if the session key is wrong.
func (a *Client) DeadLetters(ctx context.Context, sessionKey string) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		err := session.ValidateKey(sessionKey)
		if err == nil {
			err = a.eachDead(ctx, sessionKey, func(d DeadLetter) bool { return yield(d, nil) })
		}
		if err != nil {
			yield(DeadLetter{}, err)
		}
	}
}

func (a *Client) eachDead(ctx context.Context, sessionKey string, visit func(DeadLetter) bool) error {
	k := rediskey.For(sessionKey)
	all, err := a.deadPlaces(ctx, k, nil)
	slices.SortFunc(all, func(x, y deadPlace) int { // within a second in the order of Rerun
		return cmp.Or(cmp.Compare(x.second, y.second), byArrival(x, y))
	})
	all = slices.CompactFunc(all, func(x, y deadPlace) bool { return x.id == y.id && x.second == y.second }) // read twice
	for err == nil && len(all) > 0 {
		batch := all[:min(len(all), deadBatch)]
		all = all[len(batch):]
		var list []DeadLetter
		list, err = a.readDead(ctx, sessionKey, batch)
		for _, d := range list {
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

// readDead reads the dead letters at some places, in one round trip.
func (a *Client) readDead(ctx context.Context, sessionKey string, places []deadPlace) ([]DeadLetter, error) {
	tasks := make([]*redis.SliceCmd, len(places))
	var now *redis.TimeCmd
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		now = p.Time(ctx)
		for i, place := range places {
			tasks[i] = p.HMGet(ctx, rediskey.For(sessionKey).Task(place.id), "msg", "state", "result")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []DeadLetter
	for i, place := range places {
		t := script.HashFields(tasks[i])
		if t.Text("state") != "archived" {
			continue // rerun or deleted meanwhile
		}
		d := deadLetter(sessionKey, place.id, t, a.cfg.Limits)
		d.At = time.Unix(place.second, 0)
		d.Age = max(now.Val().Sub(d.At), 0)
		list = append(list, d)
	}
	return list, nil
}

// deadLetter decodes the fields of a task.
func deadLetter(sessionKey, taskID string, t script.Fields, limits session.Limits) DeadLetter {
	d := DeadLetter{Session: sessionKey, ID: protocol.MessageID(rediskey.IDPrefix(sessionKey), taskID)}
	task, err := protocol.ParseTaskMessage([]byte(t.Text("msg")))
	if err == nil {
		var m session.Message
		m, err = task.Message(limits)
		d.Text = m.Text
	}
	d.Outcome = protocol.StoredOutcome(sessionKey, d.ID, t.Text("state"), t.Text("result"))
	if d.Outcome.Error == protocol.ArchivedByHand && task.Failure != "" {
		d.Outcome.Detail = task.Failure // a stock asynq.Server's
	}
	if err != nil && d.Outcome.Error == "" {
		d.Outcome.Error = err.Error()
	}
	return d
}

// errEnough ends a walk whose caller needs no more.
var errEnough = errors.New("enough")

// SessionsWithDeadLetters visits the keys of the sessions that have dead letters, each once and in
// no order. It reads every known session, in batches. An error comes last, with an empty key.
func (a *Client) SessionsWithDeadLetters(ctx context.Context) iter.Seq2[string, error] {
	return a.sessionsWith(ctx, "look for dead letters", rediskey.Session.Archived)
}

// sessionsWith visits the keys of the sessions that have any of the named keys.
func (a *Client) sessionsWith(ctx context.Context, task string, names ...func(rediskey.Session) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		w, seen := protocol.NewWalker(a.rdb), map[string]bool{} // a scan may return a session twice
		visit := func(sessions []string) error {
			dead, err := w.WithTasks(ctx, sessions, names...)
			for _, s := range dead {
				if !seen[s] && !yield(s, nil) {
					return errEnough
				}
				seen[s] = true
			}
			return err
		}
		err := w.EverySession(ctx, visit)
		if err != nil && !errors.Is(err, errEnough) {
			yield("", fmt.Errorf("%s: %w", task, err))
		}
	}
}

// DeleteDeadLetters deletes the dead letters with these message ids, or all of a session's if ids
// is empty, and returns how many it deleted. It ignores an id that is no dead letter. A sender that
// reads the outcome of a deleted message gets session.ErrNotFound.
//
// The error wraps session.ErrInvalid if the session key is wrong. After another error n dead
// letters or a few more are deleted.
func (a *Client) DeleteDeadLetters(ctx context.Context, sessionKey string, ids ...string) (n int, err error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return 0, err
	}
	if n, err = a.dropDead(ctx, sessionKey, ids); err != nil {
		return n, fmt.Errorf("delete dead letters of %s: %w", sessionKey, err)
	}
	return n, nil
}

func (a *Client) dropDead(ctx context.Context, sessionKey string, ids []string) (n int, err error) {
	k := rediskey.For(sessionKey)
	discard := func(taskIDs []string) error {
		gone, err := protocol.Discard(ctx, a.rdb, sessionKey, taskIDs)
		n += gone
		return err
	}
	if len(ids) == 0 {
		err = a.deadPages(ctx, k, func(taskIDs []string, _ []int64) error { return discard(taskIDs) })
		return n, err
	}
	for part := range slices.Chunk(ids, deadPage) {
		taskIDs := make([]string, len(part))
		for i, id := range part {
			taskIDs[i] = rediskey.TaskID(sessionKey, id)
		}
		if err := discard(taskIDs); err != nil {
			return n, err
		}
	}
	return n, nil
}
