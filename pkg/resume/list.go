package resume

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/rediskey"
)

// listBatch is how many sessions a round trip reads.
const listBatch = 500

// Listed is a session with a mark or a suspension, and its record.
type Listed struct {
	Session string
	Record
}

// List visits the sessions with a mark or a suspension, each once and in no order. It reads every
// session that was not forgotten, in batches.
//
// An error with a Session is about that record only; List continues. Any other error ends it.
func List(ctx context.Context, rdb redis.UniversalClient) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		seen := map[string]bool{} // a scan may return a session twice
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
			for i, read := range readEach(ctx, rdb, sessions) {
				r, err := record(sessions[i], read)
				switch {
				case seen[sessions[i]] || err == nil && !r.Pending && !r.Suspended:
					continue
				case err != nil && !replied(err):
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

// replied reports whether Redis replied with the error, which then concerns one key. Any other
// error means that Redis could not be reached in time.
func replied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
