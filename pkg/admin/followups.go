package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
	"turnstile/internal/script"
	"turnstile/pkg/session"
)

// Followups returns the messages that arrived while the session's turn was running and that have
// not ended, oldest first. An unknown session has none.
func (a *Client) Followups(ctx context.Context, sessionKey string) ([]session.Followup, error) {
	return listFollowups(ctx, a.rdb, sessionKey)
}

// listFollowups reads a session's follow-ups, oldest first. It leaves out those that an operator
// has deleted or archived.
func listFollowups(ctx context.Context, rdb redis.Cmdable, sessionKey string) ([]session.Followup, error) {
	k := rediskey.For(sessionKey)
	values, err := rdb.HGetAll(ctx, k.Followups()).Result()
	if err != nil {
		return nil, fmt.Errorf("read follow-ups of %s: %w", sessionKey, err)
	}
	list := make([]session.Followup, 0, len(values))
	for id, v := range values {
		var f session.Followup
		// An entry that cannot be read is left out; its message waits in asynq all the same.
		if json.Unmarshal([]byte(v), &f) == nil {
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

// present keeps the follow-ups whose task waits or runs. A task that no sender has notified of has
// neither seen nor seq: the entry is from an earlier message with the same id, which is gone.
func present(ctx context.Context, rdb redis.Cmdable, sessionKey string, list []session.Followup) ([]session.Followup, error) {
	tasks := make([]*redis.SliceCmd, len(list))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, f := range list {
			tasks[i] = p.HMGet(ctx, rediskey.For(sessionKey).Task(rediskey.TaskID(sessionKey, f.ID)), "state", "seen", "seq")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	kept := list[:0]
	for i, f := range list {
		t := script.HashFields(tasks[i])
		if state := t.Text("state"); (state == "pending" || state == "active") && (t.Has("seen") || t.Has("seq")) {
			kept = append(kept, f)
		}
	}
	return kept, nil
}
