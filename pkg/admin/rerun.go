package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// The most that one call of the script moves: messages, and bytes. It moves one message of any
// size.
const (
	rerunBatch = 500
	rerunBytes = 4 << 20
)

// Rerun puts a session's stopped and failed dead letters back at the end of its line, in the order
// in which they first arrived, and returns how many. Expired, dropped and interrupted messages stay
// dead letters. So do those that are archived during the call, and those for which the line has no
// room (ClientConfig.LineCap).
//
// The error wraps session.ErrInvalid if the session key is wrong, and session.ErrUnchanged if
// nothing was changed. After another error some messages may be back in line. Call Rerun again for
// the rest.
func (a *Client) Rerun(ctx context.Context, sessionKey string) (n int, err error) {
	return a.rerunOf(ctx, sessionKey, nil)
}

// RerunMessages is Rerun for those of the dead letters that have one of these message ids.
func (a *Client) RerunMessages(ctx context.Context, sessionKey string, ids ...string) (n int, err error) {
	if len(ids) == 0 {
		return 0, session.ValidateKey(sessionKey)
	}
	return a.rerunOf(ctx, sessionKey, ids)
}

// rerunOf is Rerun of the messages with these ids; nil: of all.
func (a *Client) rerunOf(ctx context.Context, sessionKey string, ids []string) (n int, err error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return 0, err
	}
	if n, err = a.rerun(ctx, sessionKey, ids); err != nil {
		return n, fmt.Errorf("rerun dead letters of %s: %w", sessionKey, err)
	}
	return n, nil
}

func (a *Client) rerun(ctx context.Context, sessionKey string, ids []string) (n int, err error) {
	k, name := rediskey.For(sessionKey), rand.Text()
	all, err := a.deadPlaces(ctx, k, func(result string) bool {
		var end struct{ Status session.Status }
		return json.Unmarshal([]byte(result), &end) == nil && (end.Status == session.StatusStopped || end.Status == session.StatusFailed)
	})
	if err != nil {
		return 0, protocol.Unchanged(err, false)
	}
	if ids != nil {
		all = slices.DeleteFunc(all, func(d deadPlace) bool {
			return !slices.ContainsFunc(ids, func(id string) bool { return d.id == rediskey.TaskID(sessionKey, id) })
		})
	}
	slices.SortFunc(all, byArrival)
	all = slices.CompactFunc(all, func(a, b deadPlace) bool { return a.id == b.id && a.arrived == b.arrived }) // read twice
	for batch := 1; len(all) > 0; batch++ {
		m := rerunCount(all)
		letters := make([]protocol.DeadTask, m)
		for i, d := range all[:m] {
			letters[i] = protocol.DeadTask{ID: d.id, Arrived: d.arrived}
		}
		all = all[m:]
		moved, now, err := protocol.Rerun{Session: sessionKey, Call: fmt.Sprint(name, "-", batch), LineCap: a.cfg.LineCap, Letters: letters}.Do(ctx, a.rdb)
		if batch == 1 {
			err = protocol.Unchanged(err, false)
		}
		if err == nil && moved > 0 {
			err = protocol.ListAndWake(ctx, a.rdb, sessionKey, now, 0)
		}
		if err != nil {
			return n, err
		}
		n += moved
	}
	return n, nil
}

// rerunCount returns how many of the first places go into one batch.
func rerunCount(all []deadPlace) int {
	for i, size := 0, 0; i < min(len(all), rerunBatch); i++ {
		if size += all[i].size; size > rerunBytes && i > 0 {
			return i
		}
	}
	return min(len(all), rerunBatch)
}
