package recovery

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// waits counts what waits for people, over all sessions that a sweep has seen.
type waits struct {
	parked    int   // turns without a worker
	questions int   // open ones
	asked     int64 // when the oldest open question was asked, ms; 0: none is open
	dead      int64 // dead letters
}

// add adds one session: whether its turn is parked, and when its open question was asked, zero without one.
func (w *waits) add(parked bool, asked time.Time) {
	if parked {
		w.parked++
	}
	if asked.IsZero() {
		return
	}
	w.questions++
	if at := asked.UnixMilli(); w.asked == 0 || at < w.asked {
		w.asked = at
	}
}

// store stores the counts for metrics. A key of a wrong type is replaced by the next trim, because senders may write it,
// too.
func (w *waits) store(ctx context.Context, rdb redis.Cmdable) error {
	err := rdb.HSet(ctx, rediskey.Waiting, "parked", w.parked, "questions", w.questions, "asked", w.asked, "dead", w.dead).Err()
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return nil
	}
	return err
}
