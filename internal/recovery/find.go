package recovery

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
)

// The pace of Find, on each node of a Cluster: findBatch keys every findPause, and
// findRun of them in one call at most.
const (
	findBatch = 1000
	findPause = 50 * time.Millisecond
	findRun   = 300_000
)

// findCursorTTL is how long a pass that was left off is gone on with.
const findCursorTTL = time.Hour

// found is what a key of a session tells Find.
type found int

const (
	foundRecord   found = iota // a record, or counters
	foundResults               // messages that have ended
	foundMessages              // messages to look at: asynqmon lists the session
)

// foundWith are the names of a session's keys by which Find knows it.
var foundWith = map[string]found{
	"pending": foundMessages, "active": foundMessages, "scheduled": foundMessages, "retry": foundMessages,
	"archived": foundMessages, "stopped": foundMessages, "completed": foundResults,
	"session": foundRecord, "run": foundRecord, "resume": foundRecord, "processed": foundRecord,
}

// Find looks through the keys of the database for sessions that no index knows of, at
// most 20,000 keys a second and 300,000 in a call; the next one goes on from there. An
// asynq.Client tells a queue's name once in its life: what it puts into one that was
// forgotten since, nobody else finds. Sessions with messages are entered for Sweep and
// Purge, and listed for asynqmon, if not all have ended; those with no more than a record
// are entered for Forget. It answers how many it entered.
//
// When ctx ends it stops, without an error.
func (c *Recovery) Find(ctx context.Context) (entered int, err error) {
	now, err := c.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	var sum atomic.Int64
	err = protocol.EachMaster(ctx, c.rdb, func(ctx context.Context, node string, rdb redis.Cmdable) error {
		n, err := c.findOn(ctx, node, rdb, now.UnixMilli())
		sum.Add(int64(n))
		return err
	})
	if ctx.Err() != nil {
		err = nil
	}
	return int(sum.Load()), err
}

// findOn goes on with the pass over the keys of one node.
func (c *Recovery) findOn(ctx context.Context, node string, rdb redis.Cmdable, now int64) (entered int, err error) {
	text, err := c.rdb.HGet(ctx, rediskey.Scan, node).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	cursor, _ := strconv.ParseUint(text, 10, 64) // what cannot be read: from the beginning
	defer func() {
		// Also of a run that is cut short.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, saveErr := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.HSet(ctx, rediskey.Scan, node, strconv.FormatUint(cursor, 10))
			p.Expire(ctx, rediskey.Scan, findCursorTTL)
			return nil
		})
		err = errors.Join(err, saveErr)
	}()
	tick := time.NewTicker(findPause)
	defer tick.Stop()
	for range findRun / findBatch {
		keys, next, err := rdb.Scan(ctx, cursor, rediskey.AnySession, findBatch).Result()
		if err != nil {
			return entered, err
		}
		n, err := c.enter(ctx, now, keys)
		entered += n
		if err != nil {
			return entered, err
		}
		if cursor = next; cursor == 0 {
			return entered, nil
		}
		select {
		case <-ctx.Done():
			return entered, ctx.Err()
		case <-tick.C:
		}
	}
	return entered, nil
}

// enter gives the indexes those of the keys' sessions that they do not have.
func (c *Recovery) enter(ctx context.Context, now int64, keys []string) (entered int, err error) {
	most, sessions := map[string]found{}, []string(nil)
	for _, key := range keys {
		s, name, ok := rediskey.Parse(key)
		what, known := foundWith[name]
		if !ok || !known || len(c.Named([]string{s})) == 0 {
			continue
		}
		if _, seen := most[s]; !seen {
			sessions = append(sessions, s)
		}
		most[s] = max(most[s], what)
	}
	unknown, err := c.Absent(ctx, rediskey.Sessions, sessions)
	if err != nil {
		return 0, err
	}
	busy, least := sessions[:0:0], foundMessages
	if c.cfg.ListIdle {
		least = foundResults
	}
	for _, s := range sessions {
		if most[s] >= least {
			busy = append(busy, s)
		}
	}
	unlisted, err := c.unlisted(ctx, busy)
	if err != nil || len(unknown)+len(unlisted) == 0 {
		return 0, err
	}
	members := make([]redis.Z, len(unknown))
	fresh := map[string]bool{}
	for i, s := range unknown {
		members[i] = redis.Z{Score: 1, Member: s} // Forget looks at it at once
		if most[s] > foundRecord {
			members[i].Score = float64(now)
		}
		fresh[s] = true
	}
	entered = len(unknown)
	for _, s := range unlisted {
		if !fresh[s] {
			entered++
		}
	}
	_, err = c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		if len(members) > 0 {
			p.ZAddNX(ctx, rediskey.Sessions, members...)
		}
		if len(unlisted) > 0 {
			p.SAdd(ctx, rediskey.AllQueues, protocol.QueueNames(unlisted)...)
		}
		return nil
	})
	return entered, err
}

// unlisted keeps the sessions whose queues asynq does not list.
func (c *Recovery) unlisted(ctx context.Context, sessions []string) (rest []string, err error) {
	if len(sessions) == 0 {
		return nil, nil
	}
	listed, err := c.rdb.SMIsMember(ctx, rediskey.AllQueues, protocol.QueueNames(sessions)...).Result()
	if err != nil {
		return nil, err
	}
	for i, s := range sessions {
		if !listed[i] {
			rest = append(rest, s)
		}
	}
	return rest, nil
}
