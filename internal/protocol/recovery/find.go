package recovery

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
)

// The pace of Find, on each node of a Cluster: findBatch keys every findPause, and at most findRun
// keys in one call.
const (
	findBatch = 1000
	findPause = 50 * time.Millisecond
	findRun   = 300_000
)

// findCursorTTL is how long a later call can continue a pass.
const findCursorTTL = time.Hour

// found is the content of a session that a key reveals.
type found int

const (
	foundRecord   found = iota // only a record, or counters
	foundResults               // results of messages
	foundMessages              // other messages: asynqmon lists the session
)

// foundWith are the keys of a session by which Find recognizes it.
var foundWith = map[string]found{
	"pending": foundMessages, "active": foundMessages, "scheduled": foundMessages, "retry": foundMessages,
	"archived": foundMessages, "stopped": foundMessages, "completed": foundResults,
	"session": foundRecord, "run": foundRecord, "resume": foundRecord, "processed": foundRecord,
}

// Find scans the keys of the database for sessions that are in no index. It returns how many it
// entered into one. An asynq.Client registers a queue's name only once, and Forget may have removed
// that name since. Find reads at most 20,000 keys a second and 300,000 in a call; the next call
// continues there.
//
// A session with messages enters the list of sessions, for Sweep and Purge, and also asynqmon's list
// unless it has only results. One with only a record enters the list of sessions, for Forget.
//
// It stops without an error when ctx ends.
func (r *Recovery) Find(ctx context.Context) (entered int, err error) {
	now, err := r.rdb.Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	var sum atomic.Int64
	err = index.EachMaster(ctx, r.rdb, func(ctx context.Context, node string, rdb redis.Cmdable) error {
		n, err := r.findOn(ctx, node, rdb, now.UnixMilli())
		sum.Add(int64(n))
		return err
	})
	if ctx.Err() != nil {
		err = nil
	}
	return int(sum.Load()), err
}

// findOn continues the pass over the keys of one node.
func (r *Recovery) findOn(ctx context.Context, node string, rdb redis.Cmdable, now int64) (entered int, err error) {
	text, err := r.rdb.HGet(ctx, rediskey.Scan, node).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	cursor, _ := strconv.ParseUint(text, 10, 64) // from the beginning if it cannot be read
	defer func() {
		// Also after the end of ctx.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, saveErr := r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
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
		n, err := r.enter(ctx, now, keys)
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

// enter adds the keys' sessions to the indexes that lack them.
func (r *Recovery) enter(ctx context.Context, now int64, keys []string) (entered int, err error) {
	most, sessions := r.sessionsOf(keys)
	unknown, err := r.Absent(ctx, rediskey.Sessions, sessions)
	if err != nil {
		return 0, err
	}
	busy := sessions[:0:0]
	for _, s := range sessions {
		if most[s] >= foundMessages {
			busy = append(busy, s)
		}
	}
	unlisted, err := r.unlisted(ctx, busy)
	if err != nil || len(unknown)+len(unlisted) == 0 {
		return 0, err
	}
	members := make([]redis.Z, len(unknown))
	fresh := map[string]bool{}
	for i, s := range unknown {
		members[i] = redis.Z{Score: 1, Member: s} // the next Forget checks it
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
	_, err = r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		if len(members) > 0 {
			p.ZAddNX(ctx, rediskey.Sessions, members...)
			p.ZAddNX(ctx, rediskey.Names, named(unknown)...)
		}
		if len(unlisted) > 0 {
			p.SAdd(ctx, rediskey.AllQueues, index.QueueNames(unlisted)...)
		}
		return nil
	})
	return entered, err
}

// sessionsOf returns the sessions of the keys, each with the most that its keys reveal.
func (r *Recovery) sessionsOf(keys []string) (most map[string]found, sessions []string) {
	most = map[string]found{}
	for _, key := range keys {
		s, name, ok := rediskey.Parse(key)
		what, known := foundWith[name]
		if !ok || !known || len(r.ValidNames([]string{s})) == 0 {
			continue
		}
		if _, seen := most[s]; !seen {
			sessions = append(sessions, s)
		}
		most[s] = max(most[s], what)
	}
	return most, sessions
}

// unlisted returns the sessions that are not on asynq's list of queues.
func (r *Recovery) unlisted(ctx context.Context, sessions []string) (rest []string, err error) {
	if len(sessions) == 0 {
		return nil, nil
	}
	listed, err := r.rdb.SMIsMember(ctx, rediskey.AllQueues, index.QueueNames(sessions)...).Result()
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
