package turnstile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/stream"
	"turnstile/internal/redis/redisconn"
	"turnstile/internal/redis/script"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

const (
	// readBlock is how long one read blocks on its connection. A cancelled Wait returns within this
	// time.
	readBlock = time.Second

	// recheck is how often a wait reads the task itself: its last event may have been trimmed, or
	// an operator may have deleted the task.
	recheck = 5 * time.Second
)

// state reads a message's task: its outcome, if it ended.
func (s *Session) state(ctx context.Context, id string) (o session.Outcome, ended bool, err error) {
	read := s.c.rdb.HMGet(ctx, rediskey.For(s.key).Task(rediskey.TaskID(s.key, id)), "state", "result")
	if err := read.Err(); err != nil {
		return o, false, fmt.Errorf("read message %s of %s: %w", id, s.key, err)
	}
	task := script.HashFields(read)
	switch state := task.Text("state"); state {
	case "":
		return o, false, s.notFound(id)
	case "completed", "archived":
		return stream.StoredOutcome(s.key, id, state, task.Text("result")), true, nil
	}
	return o, false, nil
}

// Wait waits for a message's end and returns its outcome. It continues through drains, crashes,
// retries and outages of Redis. A failed turn is an outcome, no error; Outcome.Err makes it one. If
// ctx ends first, Wait returns ctx's cause, and the message still runs. The error wraps
// session.ErrNotFound if the message is not stored, and then also session.ErrExpired if its sender gave it an ID that
// Redis remembers: it was accepted. Without that, directly after Send, Redis has lost the message or an operator has
// deleted it.
func (s *Session) Wait(ctx context.Context, id string) (session.Outcome, error) {
	var last []redis.XMessage
	err := script.Repeat(ctx, func() (err error) {
		last, err = s.c.rdb.XRevRangeN(ctx, rediskey.For(s.key).Events(), "+", "-", 1).Result()
		return err
	})
	if err != nil {
		return session.Outcome{}, fmt.Errorf("read events of %s: %w", s.key, err)
	}
	from := "0"
	if len(last) > 0 {
		from = last[0].ID
	}
	return s.follow(ctx, from, &watch{id: id, turns: map[string]bool{}})
}

// following is one Wait, or one Events of a message: its place in the stream, and the state of the
// message's task.
type following struct {
	s *Session
	w *watch
	r *reader

	lookAt     time.Time // when to read the task next; zero: now
	gone       bool      // the task does not exist: no further event can come, and the stored ones are read again
	orphanRead bool      // w.orphan is set from the run record, if it has one
}

func (s *Session) follow(ctx context.Context, from string, w *watch) (end session.Outcome, err error) {
	f := &following{
		s: s, w: w, orphanRead: w.show == nil,
		r: &reader{waits: s.c.waits, stream: rediskey.For(s.key).Events(), from: from, more: from == "0" || w.show != nil},
	}
	err = persist(ctx, func() (ended bool, err error) {
		if end, ended, err = f.step(ctx); err != nil {
			f.lookAt = time.Time{}
		}
		return ended, err
	})
	return end, err
}

// persist repeats step until it returns done or a lasting error, with a growing pause after other
// errors. If ctx ends first, it returns ctx's cause.
func persist(ctx context.Context, step func() (ended bool, err error)) error {
	for failures := 0; ctx.Err() == nil; {
		ended, err := step()
		switch {
		case ended:
			return err
		case err == nil:
			failures = 0
		case redisconn.MayPass(err):
			failures++
			backoff.Redis.Wait(ctx.Done(), failures)
		case ctx.Err() == nil:
			return err
		}
	}
	return context.Cause(ctx)
}

// step reads the task if it is time to, and the next events.
func (f *following) step(ctx context.Context) (end session.Outcome, ended bool, err error) {
	if f.gone || time.Until(f.lookAt) <= 0 {
		if end, ended, err = f.look(ctx); ended || err != nil {
			return end, ended, err
		}
	}
	events, err := f.events(ctx)
	if err != nil {
		return end, false, err
	}
	for _, m := range events {
		if end, ended = f.apply(ctx, m); ended {
			return end, true, nil
		}
	}
	return end, false, nil
}

// look reads the message's task: it has the outcome even if the stream has lost the end.
func (f *following) look(ctx context.Context) (end session.Outcome, ended bool, err error) {
	end, ended, err = f.s.state(ctx, f.w.id)
	gone := errors.Is(err, session.ErrNotFound)
	switch {
	case gone && !f.gone:
		// The result may not have been kept, but the stream may have the end. If it has not, events
		// returns the error.
		f.w.countUpTo(f.r.from)
		f.r.rewind()
	case gone:
	case err != nil:
		return end, false, err
	case ended:
		replay(ctx, f.r, end, f.w)
		return end, true, nil
	case !f.orphanRead:
		if f.w.orphan, err = f.s.lastTurnWith(ctx, f.w.id); err != nil {
			return end, false, err
		}
		f.orphanRead = true
	}
	f.gone, f.lookAt = gone, time.Now().Add(recheck)
	return end, false, nil
}

// events waits for the next events and reads them. If the message does not exist, it reads the
// stored ones, and at the end of the stream returns session.ErrNotFound.
func (f *following) events(ctx context.Context) (events []redis.XMessage, err error) {
	if f.gone {
		events, err = f.r.page(ctx)
	} else {
		events, err = f.r.next(ctx, time.Until(f.lookAt))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read events: %w", err)
	case f.gone && len(events) == 0:
		return nil, f.s.unknown(ctx, f.w.id)
	}
	return events, nil
}

// unknown returns why a message is not stored: Redis remembers the IDs that senders gave, ClientConfig.RememberIDs long.
func (s *Session) unknown(ctx context.Context, id string) error {
	switch n, err := s.c.rdb.Exists(ctx, rediskey.For(s.key).Idem(id)).Result(); {
	case err != nil:
		return fmt.Errorf("read whether %s of %s was accepted: %w", id, s.key, err)
	case n == 1:
		return fmt.Errorf("%w: %w", s.notFound(id), session.ErrExpired)
	}
	return s.notFound(id)
}

// apply handles an entry of the stream. If the entry has the message's end, apply reads the task,
// which counts: the message may have been run again since.
func (f *following) apply(ctx context.Context, m redis.XMessage) (end session.Outcome, ended bool) {
	event, over := f.w.apply(m)
	if !over {
		return end, false
	}
	end, ended, err := f.s.state(ctx, f.w.id)
	switch {
	case err != nil:
		return stream.OutcomeOf(f.s.key, f.w.id, event), true
	case ended && end.Turn != event.Turn:
		f.lookAt = time.Time{} // a later turn has run: read on
		return end, false
	}
	return end, ended
}

// replay shows the stored events of a message that has already ended, and the rest of its reply if
// the stream has lost it.
func replay(ctx context.Context, r *reader, end session.Outcome, w *watch) {
	if w.show == nil {
		return
	}
	if !w.turns[end.Turn] {
		w.orphan = end.Turn
	}
	// The outcome is known, so an error here is ignored, but the caller has not seen the reply.
	_ = script.Repeat(ctx, func() error {
		for r.more = true; r.more; {
			events, err := r.page(ctx)
			if err != nil {
				return err
			}
			for _, m := range events {
				w.apply(m)
			}
		}
		return nil
	})
	w.text.rest(session.Event{Turn: end.Turn, Reply: end.Reply, At: w.at}, w.show)
}

// lastTurnWith returns the session's last turn if the message is part of it, otherwise "".
func (s *Session) lastTurnWith(ctx context.Context, id string) (turn string, err error) {
	read := s.c.rdb.HMGet(ctx, rediskey.For(s.key).Run(), "fence", "ids")
	if err := read.Err(); err != nil {
		return "", fmt.Errorf("read session %s: %w", s.key, err)
	}
	run := script.HashFields(read)
	var tasks []string
	_ = boundedjson.Unmarshal([]byte(run.Text("ids")), &tasks) // a list that cannot be read is empty
	if !slices.Contains(tasks, rediskey.TaskID(s.key, id)) {
		return "", nil
	}
	return rediskey.IDPrefix(s.key) + run.Text("fence"), nil
}
