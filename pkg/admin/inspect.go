package admin

import (
	"context"
	"fmt"

	"turnstile/internal/protocol"
	"turnstile/internal/record"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// BusySessions returns the sessions in which a turn runs or messages wait, in no order. It reads
// only the indexes of such sessions, so idle sessions cost nothing.
func (a *Client) BusySessions(ctx context.Context) ([]session.Info, error) {
	seen := map[string]bool{}
	var keys []string
	for _, index := range []string{rediskey.Owned, rediskey.Ready, rediskey.Due} {
		members, err := a.rdb.ZRange(ctx, index, 0, -1).Result()
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		for _, m := range protocol.NewWalker(a.rdb).ValidNames(members) {
			if !seen[m] {
				seen[m] = true
				keys = append(keys, m)
			}
		}
	}
	var busy []session.Info
	for len(keys) > 0 {
		n := min(len(keys), protocol.WalkBatch)
		infos, err := a.sessions(ctx, keys[:n])
		if err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		for _, s := range infos {
			if s.Phase != session.PhaseIdle || s.Pending+s.Scheduled > 0 {
				busy = append(busy, s)
			}
		}
		keys = keys[n:]
	}
	return busy, nil
}

func (a *Client) sessions(ctx context.Context, keys []string) ([]session.Info, error) {
	return record.Infos(ctx, a.rdb, keys)
}
