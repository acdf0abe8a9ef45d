package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// RunningTurn is a turn that runs, as far as its messages and events show.
type RunningTurn struct {
	Messages []TurnMessage
	Events   []session.Event // so far, in order; the stream may have lost the first ones
	Reply    string          // so far: the text since the last tool
}

// TurnMessage is a message of a running turn.
type TurnMessage struct {
	ID   string
	Text string            // "" if the message cannot be read
	Meta map[string]string // nil if the message has none, or cannot be read
}

// eventsBack is how many entries of a stream one command reads, from its end.
const eventsBack = 200

// RunningTurn reads the turn that ran when info was read. It makes several reads, so the turn may
// end meanwhile. If the session is idle, the result is zero.
func (a *Client) RunningTurn(ctx context.Context, info session.Info) (t RunningTurn, err error) {
	if info.Phase == session.PhaseIdle {
		return t, nil
	}
	if t.Messages, err = a.TurnMessages(ctx, info); err != nil {
		return t, err
	}
	if t.Events, err = a.eventsOf(ctx, info); err != nil {
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

// TurnMessages reads the messages of the turn that ran when info was read. Their texts may be gone
// meanwhile. If the session is idle, there are none.
func (a *Client) TurnMessages(ctx context.Context, info session.Info) (list []TurnMessage, err error) {
	k := rediskey.For(info.Session)
	for some := range slices.Chunk(info.Messages, deadBatch) {
		tasks := make([]*redis.StringCmd, len(some))
		_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range some {
				tasks[i] = p.HGet(ctx, k.Task(rediskey.TaskID(info.Session, id)), "msg")
			}
			return nil
		})
		if err != nil && err != redis.Nil { //nolint:errorlint // the pipeline returns the Nil of a missing task as it is
			return list, fmt.Errorf("read the messages of turn %s: %w", info.Turn, err)
		}
		for i, id := range some {
			m := TurnMessage{ID: id}
			if task, err := protocol.ParseTaskMessage([]byte(tasks[i].Val())); err == nil {
				message, _ := task.Message(a.cfg.Limits) // a message that cannot be read has no text
				m.Text, m.Meta = message.Text, message.Meta
			}
			list = append(list, m)
		}
	}
	return list, nil
}

// eventsOf reads the running turn's events, from the stream's end back to the turn's start.
func (a *Client) eventsOf(ctx context.Context, info session.Info) ([]session.Event, error) {
	var events []session.Event // the last one first
	from := "+"
	for {
		page, err := a.rdb.XRevRangeN(ctx, rediskey.For(info.Session).Events(), from, strconv.FormatInt(info.StartedAt.UnixMilli(), 10), eventsBack).Result()
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			for _, e := range slices.Backward(protocol.DecodeEvents(m)) {
				if e.Turn == info.Turn {
					events = append(events, e)
				}
			}
		}
		if len(page) < eventsBack {
			slices.Reverse(events)
			return events, nil
		}
		from = "(" + page[len(page)-1].ID
	}
}

// LastDeadLetters returns the n dead letters that were archived last, newest first.
func (a *Client) LastDeadLetters(ctx context.Context, sessionKey string, n int) ([]DeadLetter, error) {
	members, err := a.rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: rediskey.For(sessionKey).Archived(), Start: 0, Stop: n - 1, Rev: true}).Result()
	places := make([]deadPlace, len(members))
	for i, m := range members {
		id, _ := m.Member.(string)
		places[i] = deadPlace{id: id, second: int64(m.Score)}
	}
	var list []DeadLetter
	if err == nil && len(places) > 0 {
		list, err = a.readDead(ctx, sessionKey, places)
	}
	if err != nil {
		return nil, fmt.Errorf("read dead letters of %s: %w", sessionKey, err)
	}
	return list, nil
}

// NextMessage returns the id of the message at the head of a session's line, "" if none waits.
func (a *Client) NextMessage(ctx context.Context, sessionKey string) (id string, err error) {
	task, err := a.rdb.LIndex(ctx, rediskey.For(sessionKey).Pending(), -1).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		return "", fmt.Errorf("read the line of %s: %w", sessionKey, err)
	}
	return protocol.MessageID(rediskey.IDPrefix(sessionKey), task), nil
}
