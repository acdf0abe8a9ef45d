package protocol

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// What one call of the script moves at most, but one message whatever its size.
const (
	rerunBatch = 500
	rerunBytes = 4 << 20
)

// Rerun puts the dead letters that a stop or a failure has made back in line,
// oldest first, and answers how many. Expired, dropped and taken-back ones stay, and
// so do those that are put aside while it is at work, and those for which the line has no
// room.
func (c *Client) Rerun(ctx context.Context, sessionKey string) (n int, err error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return 0, err
	}
	if n, err = c.rerun(ctx, sessionKey); err != nil {
		return n, fmt.Errorf("run again what was put aside in %s: %w", sessionKey, err)
	}
	return n, nil
}

func (c *Client) rerun(ctx context.Context, sessionKey string) (n int, err error) {
	k, name := rediskey.For(sessionKey), rand.Text()
	all, err := c.deadPlaces(ctx, k, func(result string) bool {
		var end struct{ Status Status }
		return json.Unmarshal([]byte(result), &end) == nil && (end.Status == StatusStopped || end.Status == StatusFailed)
	})
	if err != nil {
		return 0, unchanged(err)
	}
	slices.SortFunc(all, byArrival)
	all = slices.CompactFunc(all, func(a, b deadPlace) bool { return a.id == b.id && a.arrived == b.arrived }) // read twice
	for batch := 1; len(all) > 0; batch++ {
		m := rerunCount(all)
		args := []any{k.TaskPrefix(), string(StatusStopped) + " " + string(StatusFailed), c.cfg.LineCap}
		for _, d := range all[:m] {
			args = append(args, d.id, d.arrived)
		}
		all = all[m:]
		reply, err := run(ctx, c.rdb, rerunScript(), append(keys(sessionKey, "", time.Now()), k.Call(fmt.Sprint(name, "-", batch))), args...)
		if err != nil && batch == 1 {
			err = unchanged(err)
		}
		if err == nil && reply.int(0) > 0 {
			err = c.announce(ctx, sessionKey, reply.int(1), 0)
		}
		if err != nil {
			return n, err
		}
		n += int(reply.int(0))
	}
	return n, nil
}

// rerunCount is how many of the first go into one batch.
func rerunCount(all []deadPlace) int {
	for i, size := 0, 0; i < min(len(all), rerunBatch); i++ {
		if size += all[i].size; size > rerunBytes && i > 0 {
			return i
		}
	}
	return min(len(all), rerunBatch)
}
