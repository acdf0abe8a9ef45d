// Package followup describes messages that arrived while a turn ran.
//
// A follow-up's task stays pending in asynq: that keeps it durable and in order.
// The entry here is what the session's owner, and whoever looks, is told of it.
package followup

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// State is what became of a follow-up so far.
type State string

// The states of a follow-up.
const (
	StateQueued    State = "queued"    // it waits for a turn of its own, or to be steered in
	StateSteered   State = "steered"   // it was handed to the running turn
	StateCollected State = "collected" // it waits for more, to be one turn with them
)

// Followup is one entry of a session's follow-ups.
type Followup struct {
	ID        string       `json:"id"`
	Text      string       `json:"text"`
	Mode      session.Mode `json:"mode,omitempty"` // what it does, be it that it says so or its session
	State     State        `json:"state"`
	Order     int          `json:"order"`      // place in the line when it came, the running turn counted
	ArrivedAt int64        `json:"arrived_at"` // ms since 1970, by Redis' clock
}

// Entry is the part that a sender knows, as a JSON object; the ring script puts
// mode, state, order and arrived_at before it.
func Entry(m session.Message) (string, error) {
	text, err := json.Marshal(struct {
		ID   string `json:"id"`
		Text string `json:"text"`
	}{m.ID, m.Text})
	if err != nil {
		return "", fmt.Errorf("encode follow-up: %w", err)
	}
	return string(text), nil
}

// List reads a session's follow-ups, oldest first: of messages that wait or run, for an
// operator may have deleted or archived others.
func List(ctx context.Context, rdb redis.Cmdable, sessionKey string) ([]Followup, error) {
	k := rediskey.For(sessionKey)
	values, err := rdb.HGetAll(ctx, k.Followups()).Result()
	if err != nil {
		return nil, fmt.Errorf("read follow-ups of %s: %w", sessionKey, err)
	}
	list := make([]Followup, 0, len(values))
	for id, v := range values {
		var f Followup
		// Senders of an older version keep refusals here. What cannot be read is no
		// reason to hide the others: the task itself waits in asynq.
		if !strings.HasPrefix(v, `{"refused":`) && json.Unmarshal([]byte(v), &f) == nil {
			f.ID = id
			list = append(list, f)
		}
	}
	if list, err = present(ctx, rdb, sessionKey, list); err != nil {
		return nil, fmt.Errorf("read follow-ups of %s: %w", sessionKey, err)
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].ArrivedAt != list[j].ArrivedAt {
			return list[i].ArrivedAt < list[j].ArrivedAt
		}
		return list[i].Order < list[j].Order
	})
	return list, nil
}

// present keeps those whose task waits or runs. One that was not announced has its id
// from another one, which is gone.
func present(ctx context.Context, rdb redis.Cmdable, sessionKey string, list []Followup) ([]Followup, error) {
	tasks := make([]*redis.SliceCmd, len(list))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, f := range list {
			tasks[i] = p.HMGet(ctx, rediskey.For(sessionKey).Task(session.TaskID(sessionKey, f.ID)), "state", "seen", "seq")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	kept := list[:0]
	for i, f := range list {
		if t := tasks[i].Val(); (t[0] == "pending" || t[0] == "active") && (t[1] != nil || t[2] != nil) {
			kept = append(kept, f)
		}
	}
	return kept, nil
}
