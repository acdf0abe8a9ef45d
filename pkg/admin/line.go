package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// LineMessage is a message that waits for its turn.
type LineMessage struct {
	ID    string
	Text  string    // "" if it cannot be read as a message
	Due   time.Time // when a delayed message or a retry joins the line; zero if it is in the line
	Error string    // why the turn before failed, of a message that waits for a retry
}

// Line returns the first n messages in a session's line, in its order, and behind them the first n
// of those that are delayed or wait for a retry, the next one that is due first. The error wraps
// session.ErrInvalid if the session key is wrong.
func (a *Client) Line(ctx context.Context, sessionKey string, n int) ([]LineMessage, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return nil, err
	}
	list, err := a.line(ctx, sessionKey, n)
	if err != nil {
		return nil, fmt.Errorf("read the line of %s: %w", sessionKey, err)
	}
	return list, nil
}

func (a *Client) line(ctx context.Context, sessionKey string, n int) ([]LineMessage, error) {
	k := rediskey.For(sessionKey)
	var pending *redis.StringSliceCmd
	var scheduled, retried *redis.ZSliceCmd
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		pending = p.LRange(ctx, k.Pending(), int64(-n), -1) // the head is its end
		scheduled = p.ZRangeWithScores(ctx, k.Scheduled(), 0, int64(n-1))
		retried = p.ZRangeWithScores(ctx, k.Retry(), 0, int64(n-1))
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []LineMessage
	for _, id := range slices.Backward(pending.Val()) {
		list = append(list, LineMessage{ID: id})
	}
	delayed := make([]LineMessage, 0, 2*n)
	for _, z := range slices.Concat(scheduled.Val(), retried.Val()) {
		id, _ := z.Member.(string)
		delayed = append(delayed, LineMessage{ID: id, Due: time.Unix(int64(z.Score), 0)})
	}
	slices.SortStableFunc(delayed, func(x, y LineMessage) int { return x.Due.Compare(y.Due) })
	list = append(list, delayed[:min(n, len(delayed))]...)
	for some := range slices.Chunk(list, deadBatch) {
		if err := a.readLine(ctx, sessionKey, some); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readLine reads the texts of messages whose ids are those of their tasks, in one round trip, and
// makes the ids those of the messages.
func (a *Client) readLine(ctx context.Context, sessionKey string, list []LineMessage) error {
	k, prefix := rediskey.For(sessionKey), rediskey.IDPrefix(sessionKey)
	tasks := make([]*redis.SliceCmd, len(list))
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, m := range list {
			tasks[i] = p.HMGet(ctx, k.Task(m.ID), "msg")
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range list {
		list[i].ID = protocol.MessageID(prefix, list[i].ID)
		task, err := protocol.ParseTaskMessage([]byte(script.HashFields(tasks[i]).Text("msg")))
		if err != nil {
			continue // the message has ended meanwhile
		}
		m, _ := task.Message(a.cfg.Limits) // a message that cannot be read has no text
		list[i].Text, list[i].Error = m.Text, task.Failure
	}
	return nil
}

// LastEventID returns the id of a session's last event, for turnstile.Client.Events; "" if there is
// none. The error wraps session.ErrInvalid if the session key is wrong.
func (a *Client) LastEventID(ctx context.Context, sessionKey string) (string, error) {
	return a.lastEvent(ctx, sessionKey, "+")
}

// LastEventIDAt is LastEventID as it was at a time of Redis' clock, in ms, as far as the stream still
// has the events of that time.
func (a *Client) LastEventIDAt(ctx context.Context, sessionKey string, ms int64) (string, error) {
	return a.lastEvent(ctx, sessionKey, strconv.FormatInt(ms, 10))
}

// lastEvent returns the id of the last event up to an end, as XREVRANGE has it.
func (a *Client) lastEvent(ctx context.Context, sessionKey, end string) (string, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return "", err
	}
	last, err := a.rdb.XRevRangeN(ctx, rediskey.For(sessionKey).Events(), end, "-", 1).Result()
	if err != nil {
		return "", fmt.Errorf("read the last event of %s: %w", sessionKey, err)
	}
	for _, m := range last {
		if events := protocol.DecodeEvents(m); len(events) > 0 {
			return events[len(events)-1].ID, nil
		}
	}
	return "", nil
}
