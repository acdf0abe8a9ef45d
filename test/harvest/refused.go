package harvest

import (
	"crypto/sha256"
	"encoding/hex"

	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"turnstile/test/history"
)

// refused records the places where Redis has refused messages.
func (h *Harvest) refused(ctx context.Context, records []history.Record) error {
	for _, r := range records {
		if r.Kind != history.Told || r.Status != history.Refused || r.Name != "" {
			continue
		}
		places, err := stored(ctx, h.rdb, r.Session, r.ID)
		if err != nil {
			return err
		}
		for _, place := range places {
			h.log.Add(history.Record{Kind: history.Stored, Session: r.Session, ID: r.ID, Name: place})
		}
	}
	return nil
}

// stored returns where Redis has a message: the names that docs/internals/keys.md gives the keys.
func stored(ctx context.Context, rdb redis.UniversalClient, session, id string) (places []string, err error) {
	own, queue, task := "turnstile:{session:"+session+"}:", "asynq:{session:"+session+"}:", TaskID(session, id)
	asked := map[string]redis.Cmder{}
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		asked["task"], asked["idem"] = p.Exists(ctx, queue+"t:"+task), p.Exists(ctx, own+"idem:"+id)
		asked["followups"], asked["owed"] = p.HExists(ctx, own+"followups", id), p.HExists(ctx, own+"owed", id)
		asked["stopped"] = p.LPos(ctx, own+"stopped", task, redis.LPosArgs{})
		for _, list := range []string{"pending", "active"} {
			asked[list] = p.LPos(ctx, queue+list, task, redis.LPosArgs{})
		}
		for _, set := range []string{"scheduled", "retry", "completed", "archived", "lease"} {
			asked[set] = p.ZScore(ctx, queue+set, task)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	for place, cmd := range asked {
		there := cmd.Err() == nil // of LPOS and ZSCORE
		switch c := cmd.(type) {
		case *redis.IntCmd:
			if place == "task" || place == "idem" {
				there = c.Val() == 1
			}
		case *redis.BoolCmd:
			there = c.Val()
		}
		if there {
			places = append(places, place)
		}
	}
	slices.Sort(places)
	return places, nil
}

// TaskID is a message's ID as a task, as docs/wire.md says.
func TaskID(session, id string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:4]) + "-" + id
}
