package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
	"turnstile/pkg/session"
)

// One call of the script moves at most so many messages and bytes. It always moves one message.
const (
	rerunBatch = 500
	rerunBytes = 4 << 20
)

// Rerun queues stopped and failed dead letters with these message IDs again, or All, in the order
// in which they first arrived, and returns how many. Expired, dropped and interrupted messages stay
// dead letters. So do messages that are archived during the call, or exceed Limits.Queue.
//
// The error wraps session.ErrUnchanged if nothing was changed. After another error some messages may
// be queued: call Rerun again for the rest.
func (s *Session) Rerun(ctx context.Context, ids ...string) (n int, err error) {
	if err := session.ValidateKey(s.key); err != nil || len(ids) == 0 {
		return 0, err
	}
	if n, err = s.rerun(ctx, ids); err != nil {
		return n, fmt.Errorf("rerun dead letters of %s: %w", s.key, broken(err))
	}
	return n, nil
}

func (s *Session) rerun(ctx context.Context, ids []string) (n int, err error) {
	rdb, name := s.admin.rdb, rand.Text()
	all, err := s.admin.deadPlaces(ctx, s.keys(), func(result string) bool {
		var end struct{ Status session.Status }
		return json.Unmarshal([]byte(result), &end) == nil && (end.Status == session.StatusStopped || end.Status == session.StatusFailed)
	})
	if err != nil {
		return 0, protocol.Unchanged(err, false)
	}
	if !slices.Contains(ids, All) {
		wanted := s.taskIDs(ids)
		all = slices.DeleteFunc(all, func(d deadPlace) bool { return !slices.Contains(wanted, d.id) })
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
		moved, now, err := protocol.Rerun{Session: s.key, By: s.user, Call: fmt.Sprint(name, "-", batch), LineCap: s.admin.cfg.Limits.Queue, Letters: letters}.Do(ctx, rdb)
		if batch == 1 {
			err = protocol.Unchanged(err, false)
		}
		if err == nil && moved > 0 {
			err = index.ListAndWake(ctx, rdb, s.key, now, 0)
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
