package turnstile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

const (
	// readBlock is how long one read waits for events on its connection. A cancelled Wait
	// returns after so long at the latest.
	readBlock = time.Second

	// recheck is how often a wait reads the task itself, in case its last event was trimmed
	// or an operator deleted the task.
	recheck = 5 * time.Second
)

// ErrUnknownMessage is wrapped by the error about a message that is not stored: it was never
// submitted, its result has expired (TURNSTILE_RETENTION), or an operator deleted it.
var ErrUnknownMessage = errors.New("unknown message")

// Result returns how a message ended. ok is false while it waits or runs. The error wraps
// ErrUnknownMessage if it is not stored.
func (c *Client) Result(ctx context.Context, sessionKey, id string) (o session.Outcome, ok bool, err error) {
	t, err := c.rdb.HMGet(ctx, rediskey.For(sessionKey).Task(rediskey.TaskID(sessionKey, id)), "state", "result").Result()
	if err != nil {
		return session.Outcome{}, false, fmt.Errorf("read message %s of %s: %w", id, sessionKey, err)
	}
	a := script.Result(t)
	switch a.Text(0) {
	case "":
		return session.Outcome{}, false, fmt.Errorf("%w %s of session %s", ErrUnknownMessage, id, sessionKey)
	case "completed", "archived":
		return protocol.StoredOutcome(sessionKey, id, a.Text(0), a.Text(1)), true, nil
	}
	return session.Outcome{}, false, nil
}

// Wait waits until a message has ended and returns its outcome. It lasts through drains,
// crashes, retries and outages of Redis. If ctx ends first, it returns ctx's cause; the
// message still runs. The error wraps ErrUnknownMessage if the message is not stored.
func (c *Client) Wait(ctx context.Context, sessionKey, id string) (session.Outcome, error) {
	var last []redis.XMessage
	err := script.Repeat(ctx, func() (err error) {
		last, err = c.rdb.XRevRangeN(ctx, rediskey.For(sessionKey).Events(), "+", "-", 1).Result()
		return err
	})
	if err != nil {
		return session.Outcome{}, fmt.Errorf("read events of %s: %w", sessionKey, err)
	}
	from := "0"
	if len(last) > 0 {
		from = last[0].ID
	}
	return c.follow(ctx, sessionKey, from, &watch{id: id, turns: map[string]bool{}})
}

// Follow is Wait that also calls see for each event of the message's turns, from the first
// one that the session's stream still has.
//
// It calls see once for each event, in their order, in the goroutine of the call, through
// lost connections too. Events that the stream has lost (it is capped, and a crash of Redis
// can lose some) are not seen; the missing end of a reply comes as one text event.
func (c *Client) Follow(ctx context.Context, sessionKey, id string, see func(session.Event)) (session.Outcome, error) {
	return c.FollowFrom(ctx, sessionKey, id, "", see)
}

// FollowFrom continues a Follow: it calls see for the events behind the one with the id
// after (session.Event.ID). An empty id means all events. The error wraps
// session.ErrInvalid if after cannot be an event's id.
func (c *Client) FollowFrom(ctx context.Context, sessionKey, id, after string, see func(session.Event)) (session.Outcome, error) {
	w := &watch{id: id, turns: map[string]bool{}, see: see}
	if after != "" {
		var err error
		if w.shown, err = protocol.ParseEventID(after); err != nil {
			return session.Outcome{}, err
		}
	}
	// From the beginning all the same: the earlier events tell which turns are the
	// message's, and how much of the reply was seen.
	return c.follow(ctx, sessionKey, "0", w)
}

func (c *Client) follow(ctx context.Context, sessionKey, from string, w *watch) (session.Outcome, error) {
	id := w.id
	r := &reader{waits: c.waits, stream: rediskey.For(sessionKey).Events(), from: from, behind: from == "0"}
	var looked time.Time
	rescanned, learnt := false, w.see == nil
	pause := 50 * time.Millisecond
	for ctx.Err() == nil {
		var err error
		if time.Since(looked) >= recheck {
			var o session.Outcome
			var ended bool
			if o, ended, err = c.Result(ctx, sessionKey, id); err == nil && ended {
				replay(ctx, r, o, w)
				return o, nil
			}
			if err == nil && !learnt {
				w.orphan, err = c.turnOf(ctx, sessionKey, id)
				learnt = err == nil
			}
			looked = time.Now()
			if errors.Is(err, ErrUnknownMessage) && !rescanned {
				// Its result may not have been kept, but the event may be there.
				w.learnt, _ = protocol.ParseEventID(r.from) // none was, if that is the beginning
				r.rewind()
				rescanned = true
			}
		}
		var events []redis.XMessage
		unknown := errors.Is(err, ErrUnknownMessage)
		if err == nil || unknown {
			var readErr error
			if unknown {
				events, readErr = r.page(ctx)
			} else {
				events, readErr = r.next(ctx, time.Until(looked.Add(recheck)))
			}
			if readErr != nil {
				err = fmt.Errorf("read events: %w", readErr)
			} else if len(events) > 0 {
				err = nil
			}
		}
		switch {
		case err == nil:
			pause = 50 * time.Millisecond
		case redisconn.MayPass(err):
			looked = time.Time{}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, 2*time.Second)
		case ctx.Err() == nil:
			return session.Outcome{}, err
		}
		for _, m := range events {
			if end, ended := w.hear(m); ended {
				// The task knows better than an event: the message may have been run
				// again since.
				o, over, err := c.Result(ctx, sessionKey, id)
				if err == nil && !over {
					continue
				}
				if err == nil && o.Turn != end.Turn {
					looked = time.Time{} // there is more to see
					continue
				}
				if err == nil {
					return o, nil
				}
				return protocol.OutcomeOf(sessionKey, id, end), nil
			}
		}
		if unknown {
			looked = time.Time{} // nothing can come any more
		}
	}
	return session.Outcome{}, context.Cause(ctx)
}

// replay shows the events that the stream still has of a message that has ended, and the
// part of its reply that the stream has lost.
func replay(ctx context.Context, r *reader, end session.Outcome, w *watch) {
	if w.see == nil {
		return
	}
	w.orphan = end.Turn
	// The outcome is known, but whoever follows has not seen the reply.
	_ = script.Repeat(ctx, func() error {
		for r.behind = true; r.behind; {
			events, err := r.page(ctx)
			if err != nil {
				return err
			}
			for _, m := range events {
				w.hear(m)
			}
		}
		return nil
	})
	w.text.rest(session.Event{Turn: end.Turn, Reply: end.Reply, At: w.at}, w.see)
}

// turnOf returns the session's last turn if the message is a part of it, else "".
func (c *Client) turnOf(ctx context.Context, sessionKey, id string) (turn string, err error) {
	run, err := c.rdb.HMGet(ctx, rediskey.For(sessionKey).Run(), "fence", "ids").Result()
	if err != nil {
		return "", fmt.Errorf("read session %s: %w", sessionKey, err)
	}
	r := script.Result(run)
	var tasks []string
	_ = json.Unmarshal([]byte(r.Text(1)), &tasks) // what cannot be read says nothing
	if !slices.Contains(tasks, rediskey.TaskID(sessionKey, id)) {
		return "", nil
	}
	return rediskey.IDPrefix(sessionKey) + r.Text(0), nil
}
