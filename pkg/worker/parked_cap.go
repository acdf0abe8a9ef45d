package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
)

// parkedEvery is how often at most a worker counts the turns that wait without a worker.
const parkedEvery = 5 * time.Second

// parkedCap bounds these turns. It counts them only while some of this worker want to be parked.
//
// No key has their number. The session of each is in the index of those that wait for a time, which bounds it from
// above: it has those with delayed messages, too.
type parkedCap struct {
	rdb  redis.UniversalClient
	most int // negative: no limit
	log  *slog.Logger

	taking  oneAtATime // a count may take as long as Redis does
	counted time.Time
	room    int  // how many more may be parked until the next count
	full    bool // the last count left none
}

func newParkedCap(rdb redis.UniversalClient, most int, log *slog.Logger) *parkedCap {
	return &parkedCap{rdb: rdb, most: most, log: log, taking: newOneAtATime()}
}

// take reports whether one more turn may be parked, and counts it.
func (p *parkedCap) take(ctx context.Context) bool {
	if p.most < 0 {
		return true
	}
	select {
	case p.taking <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer p.taking.unlock()
	if p.counted.IsZero() || time.Since(p.counted) > parkedEvery {
		n, err := p.rdb.ZCard(ctx, rediskey.Due).Result()
		if err != nil {
			return false // it is tried again soon
		}
		p.counted, p.room = time.Now(), p.most-int(n)
		was := p.full
		if p.full = p.room <= 0; p.full && !was {
			p.log.Warn("turns keep their slots while they wait: too many are parked", "cap", p.most)
		}
	}
	p.room--
	return p.room >= 0
}

// goesOn takes the session of a turn that was parked from the index, where it would stay until the time of the wait.
// The session has an owner, whose end enters it again if a message of it is delayed.
func (p *parkedCap) goesOn(ctx context.Context, sessionKey string) {
	_ = p.rdb.ZRem(ctx, rediskey.Due, sessionKey).Err() // it counts for longer
}
