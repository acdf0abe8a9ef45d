package sessionqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

const (
	// readBlock is how long one read waits for events: as long as it may take
	// until a cancelled Wait returns.
	readBlock = time.Second

	// recheck is how often a wait looks at the task itself, in case its last
	// event was trimmed or an operator removed the task.
	recheck = 5 * time.Second
)

// ErrUnknown says that no message of that id is stored: there never was one, its
// result is not kept any more, or an operator deleted it.
var ErrUnknown = errors.New("unknown message")

// Result answers how a message ended; ok is false while it has not.
func (c *Client) Result(ctx context.Context, sessionKey, id string) (o Outcome, ok bool, err error) {
	t, err := c.rdb.HMGet(ctx, rediskey.For(sessionKey).Task(session.TaskID(sessionKey, id)), "state", "result").Result()
	if err != nil {
		return Outcome{}, false, fmt.Errorf("read message %s of %s: %w", id, sessionKey, err)
	}
	a := answer(t)
	switch a.str(0) {
	case "":
		return Outcome{}, false, fmt.Errorf("%w %s of session %s", ErrUnknown, id, sessionKey)
	case "completed", "archived":
		return storedOutcome(sessionKey, id, a.str(0), a.str(1)), true, nil
	}
	return Outcome{}, false, nil
}

// archivedByHand is the error of a dead letter without an outcome.
const archivedByHand = "archived by an operator"

// storedOutcome is how a task ended that is completed or archived.
func storedOutcome(sessionKey, id, state, result string) Outcome {
	var e Event
	if json.Unmarshal([]byte(result), &e) == nil && e.Type == EventTurnEnded {
		return outcomeOf(sessionKey, id, e)
	}
	// Another program's doing: asynqmon's Archive, or a stock asynq.Server.
	o := Outcome{Session: sessionKey, ID: id, Status: StatusDone, Reply: result}
	if state == "archived" {
		o.Status, o.Error = StatusFailed, archivedByHand
	}
	return o
}

// Wait waits until a message has ended, through drains, crashes, retries and a
// Redis that is away, for as long as ctx lasts. The message goes on without it.
func (c *Client) Wait(ctx context.Context, sessionKey, id string) (Outcome, error) {
	var last []redis.XMessage
	err := persist(ctx, func() (err error) {
		last, err = c.rdb.XRevRangeN(ctx, rediskey.For(sessionKey).Events(), "+", "-", 1).Result()
		return err
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("read events of %s: %w", sessionKey, err)
	}
	from := "0"
	if len(last) > 0 {
		from = last[0].ID
	}
	return c.follow(ctx, sessionKey, id, from, func(Event) {})
}

// Follow is Wait that also calls see for each event of the message's turns, those
// of before the call included as far as the stream still has them.
func (c *Client) Follow(ctx context.Context, sessionKey, id string, see func(Event)) (Outcome, error) {
	return c.follow(ctx, sessionKey, id, "0", see)
}

func (c *Client) follow(ctx context.Context, sessionKey, id, from string, see func(Event)) (Outcome, error) {
	stream := rediskey.For(sessionKey).Events()
	w := watch{id: id, turns: map[string]bool{}, see: see}
	var looked time.Time
	rescanned := false
	pause := 50 * time.Millisecond
	for ctx.Err() == nil {
		var err error
		if time.Since(looked) >= recheck {
			var o Outcome
			var ended bool
			if o, ended, err = c.Result(ctx, sessionKey, id); err == nil && ended {
				c.replay(ctx, stream, from, &w)
				return o, nil
			}
			looked = time.Now()
			if errors.Is(err, ErrUnknown) && !rescanned {
				// Its result may not have been kept, but the event may be there.
				from, rescanned = "0", true
			}
		}
		var events []redis.XMessage
		unknown := errors.Is(err, ErrUnknown)
		if err == nil || unknown {
			var readErr error
			if events, readErr = c.read(ctx, stream, from, !unknown); readErr != nil || len(events) > 0 {
				err = readErr
			}
		}
		switch {
		case err == nil:
			pause = 50 * time.Millisecond
		case passing(err):
			looked = time.Time{}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, 2*time.Second)
		case ctx.Err() == nil:
			return Outcome{}, err
		}
		for _, m := range events {
			from = m.ID
			if end, ended := w.hear(m); ended {
				// The task knows better than an event: the message may have been run
				// again since.
				if o, over, err := c.Result(ctx, sessionKey, id); err == nil && over {
					return o, nil
				} else if err == nil {
					continue
				}
				return outcomeOf(sessionKey, id, end), nil
			}
		}
		if unknown {
			looked = time.Time{} // nothing can come any more
		}
	}
	return Outcome{}, context.Cause(ctx)
}

// replay shows what the stream has of a message that has already ended.
func (c *Client) replay(ctx context.Context, stream, from string, w *watch) {
	events, err := c.read(ctx, stream, from, false)
	if err != nil {
		return // the outcome is known; what led to it is a courtesy
	}
	for _, m := range events {
		w.hear(m)
	}
}

// read reads the events after from, waiting for the first if block is set.
func (c *Client) read(ctx context.Context, stream, from string, block bool) ([]redis.XMessage, error) {
	args := &redis.XReadArgs{Streams: []string{stream, from}, Block: -1}
	if block {
		args.Block = readBlock
	}
	streams, err := c.rdb.XRead(ctx, args).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return streams[0].Messages, nil
}

// watch follows one message's turns through a session's events.
type watch struct {
	id    string
	turns map[string]bool // of the message, learnt from their starts
	text  streamed
	see   func(Event)
}

// hear takes one entry of the stream, and answers the message's end if it is in it.
func (w *watch) hear(m redis.XMessage) (end Event, ended bool) {
	for _, e := range decodeEvents(m) {
		named := slices.Contains(e.Messages, w.id)
		if named && (e.Type == EventTurnStarted || e.Type == EventSteered) {
			w.turns[e.Turn] = true
		}
		switch {
		case !named && !w.turns[e.Turn]:
		case e.Type == EventTurnEnded:
			w.text.rest(e, w.see)
			end, ended = e, true
		default:
			w.text.seen(e)
			w.see(e)
		}
	}
	return end, ended
}

// decodeEvents reads one entry of a session's stream: an event, and in the field s
// the start of its turn if that was not told before. (In n a worker of the version
// before has the start of the turn that came next.) What is no event is passed over.
func decodeEvents(m redis.XMessage) []Event {
	ms, _, _ := strings.Cut(m.ID, "-")
	var events []Event
	for _, field := range []string{"s", "e", "n"} {
		text, _ := m.Values[field].(string)
		var e Event
		if json.Unmarshal([]byte(text), &e) == nil {
			e.At = time.UnixMilli(number(ms))
			events = append(events, e)
		}
	}
	return events
}

// streamed is the part of a reply that was seen as text events. A worker does
// not send the last piece twice, as text and in the turn's end.
type streamed struct {
	turn, text string
	steered    int // how much of text came before the last steer
}

func (s *streamed) seen(e Event) {
	if e.Turn != s.turn {
		*s = streamed{turn: e.Turn}
	}
	switch e.Type {
	case string(agent.EventText):
		s.text += e.Text
	case string(agent.EventToolStart):
		s.text, s.steered = "", 0
	case EventSteered:
		s.steered = len(s.text)
	}
}

// rest shows what a turn's end has beyond the text that was seen. The reply is
// all of the text since the last tool, or what came after the last steer.
func (s *streamed) rest(end Event, see func(Event)) {
	s.seen(Event{Turn: end.Turn})
	rest, ok := strings.CutPrefix(end.Reply, s.text)
	if !ok {
		rest, ok = strings.CutPrefix(end.Reply, s.text[s.steered:])
	}
	if ok && rest != "" {
		see(Event{Type: string(agent.EventText), Turn: end.Turn, Text: rest, At: end.At})
	}
}
