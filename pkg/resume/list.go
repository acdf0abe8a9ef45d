package resume

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// listBatch is how many sessions are read in a round trip.
const listBatch = 500

// Listed is a session with a mark or a suspension.
type Listed struct {
	Session string
	Record
}

// List visits the sessions with a mark or a suspension, each once and in no
// order. It looks at every session that was not forgotten, in batches.
//
// An error that comes with a Session concerns that record alone, and the next
// ones follow; any other error is the last.
func List(ctx context.Context, rdb redis.Cmdable) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		seen := map[string]bool{} // a scan may come by twice
		for cursor := uint64(0); ; {
			pairs, next, err := rdb.ZScan(ctx, rediskey.Sessions, cursor, "", listBatch).Result()
			if err != nil {
				yield(Listed{}, fmt.Errorf("list resume records: %w", err))
				return
			}
			sessions := make([]string, 0, len(pairs)/2) // of session and score
			for i := 0; i < len(pairs); i += 2 {
				sessions = append(sessions, pairs[i])
			}
			for i, cmd := range readEach(ctx, rdb, sessions) {
				r, err := record(sessions[i], cmd)
				switch {
				case seen[sessions[i]] || err == nil && !r.Pending && !r.Suspended:
					continue
				case err != nil && !answered(err):
					yield(Listed{}, err)
					return
				}
				seen[sessions[i]] = true
				if !yield(Listed{sessions[i], r}, err) {
					return
				}
			}
			if cursor = next; cursor == 0 {
				return
			}
		}
	}
}

// answered reports whether an error is Redis' answer about one key. Else Redis
// could not be asked, or not in time.
func answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}
