package store

import (
	"context"
	"strconv"

	"turnstile/internal/protocol/index"

	"github.com/redis/go-redis/v9"
)

// browsePage is how many sessions a round trip reads.
const browsePage = 500

// byTime visits the sessions of an index in the order of their times, such as the last activity,
// beginning at a time. Times only increase, so a session that is used meanwhile moves to a later page
// and is not missed.
func byTime(ctx context.Context, rdb redis.UniversalClient, key, from string, visit func(keys []string) error) error {
	seen := map[string]bool{} // visited sessions with exactly this time
	for {
		page, err := rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: key, Start: from, Stop: "+inf", ByScore: true, Count: int64(browsePage + len(seen)),
		}).Result()
		if err != nil {
			return err
		}
		var keys []string
		for _, z := range page {
			at := strconv.FormatFloat(z.Score, 'f', -1, 64)
			if at != from {
				from, seen = at, map[string]bool{}
			}
			if key, _ := z.Member.(string); !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
		if len(keys) == 0 {
			return nil
		}
		if err := visit(index.Walker{}.ValidNames(keys)); err != nil {
			return err
		}
	}
}
