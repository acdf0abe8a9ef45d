package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
)

// eraseBatch is the most messages, and the most other keys, that one script deletes. More would
// block Redis.
const eraseBatch = 500

// Erase erases a session.
type Erase struct {
	Session     string
	Undelivered bool          // erase outcomes that are not delivered, too
	Unused      time.Duration // see protocol.Erase
	Fence       *string       // if set, of the last turn that the caller has seen: after another one it is a UsedError

	// List returns the keys beside those that every session has. nil: it scans all keys of the database.
	List func() ([]string, error)
}

// undeliveredError is a session.ErrUndelivered with counts.
type undeliveredError struct{ owed, stored int }

// Error says how many outcomes there are.
func (e *undeliveredError) Error() string {
	return fmt.Sprintf("%d outcomes are owed to destinations, %d are not delivered", e.owed, e.stored)
}

func (e *undeliveredError) Unwrap() error { return session.ErrUndelivered }

// UsedError says that a session is used, and when to look again, 0 if unknown.
type UsedError struct{ At int64 }

func (*UsedError) Error() string { return "the session is used" }

// Do erases the session. The error wraps session.ErrBusy, session.ErrUndelivered or a UsedError if that
// was refused.
func (e Erase) Do(ctx context.Context, rdb redis.UniversalClient) error {
	k := rediskey.For(e.Session)
	if e.List == nil {
		e.List = func() (found []string, err error) {
			err = Scan(ctx, rdb, k.Any(), func(keys []string) error { found = append(found, keys...); return nil })
			return found, err
		}
	}
	for {
		fence, many, err := eraseWhat(ctx, rdb, k)
		if err != nil {
			return err
		}
		if e.Fence != nil && fence != *e.Fence && fence != "" { // "": erased, and the reply was lost
			return &UsedError{}
		}
		// While there are many messages it deletes only these: each task is a key that the scan
		// would return.
		var found []string
		if !many {
			if found, err = e.List(); err != nil {
				return err
			}
		}
		gone, err := e.batches(ctx, rdb, fence, found, !many)
		if err != nil {
			return err
		}
		if gone {
			return unlistErased(ctx, rdb, e.Session)
		}
	}
}

// batches deletes a batch of messages, and the found keys. all says that found has every key
// of the session. gone reports that nothing is left.
func (e Erase) batches(ctx context.Context, rdb redis.UniversalClient, fence string, found []string, all bool) (gone bool, err error) {
	own := protocol.Keys(e.Session, "", time.Now())
	// For example transcripts of earlier session ids, which no worker uses any more.
	others := slices.DeleteFunc(slices.Clone(found), func(key string) bool { return slices.Contains(own, key) })
	for {
		part := others[:min(len(others), eraseBatch)]
		others = others[len(part):]
		state, why, err := protocol.Erase{
			Session: e.Session, Fence: fence, Batch: eraseBatch, Others: part, Last: all && len(others) == 0, Keep: !e.Undelivered, Unused: e.Unused,
		}.Do(ctx, rdb)
		switch {
		case err != nil:
			return false, err
		case state == "held":
			return false, session.ErrBusy
		case state == "owed":
			return false, &undeliveredError{why.Owed, why.Stored}
		case state == "used":
			return false, &UsedError{why.At}
		case state != "batch" || len(others) == 0:
			return state == "gone", nil
		}
	}
}

// eraseWhat returns the fencing token of the last turn, "" if there was none, and whether the
// session has more messages than one script deletes.
func eraseWhat(ctx context.Context, rdb redis.UniversalClient, k rediskey.Session) (fence string, many bool, err error) {
	var last *redis.StringCmd
	var counts []*redis.IntCmd
	_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		last = p.HGet(ctx, k.Run(), "fence")
		counts = append(counts, p.LLen(ctx, k.Pending()), p.LLen(ctx, k.Stopped()))
		for _, zset := range []string{k.Archived(), k.Completed(), k.Retry(), k.Scheduled()} {
			counts = append(counts, p.ZCard(ctx, zset))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", false, err
	}
	var n int64
	for _, count := range counts {
		n += count.Val()
	}
	return last.Val(), n > eraseBatch, nil
}

// unlistErased removes an erased session from the indexes. If a message has arrived meanwhile, it wakes
// the session again, because the sender may have woken it before the removal. It removes the
// session from the list of sessions last, and only if no message has touched it: if it fails
// before that, the sweep finds the session.
func unlistErased(ctx context.Context, rdb redis.UniversalClient, sessionKey string) error {
	var seen *redis.FloatCmd
	var now *redis.TimeCmd
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, index := range []string{rediskey.Ready, rediskey.Sorted, rediskey.Due, rediskey.Owned, rediskey.Unlisted, rediskey.Names, rediskey.Attention, rediskey.Outbox} {
			p.ZRem(ctx, index, sessionKey)
		}
		p.HDel(ctx, rediskey.Places, sessionKey)
		p.SRem(ctx, rediskey.AllQueues, rediskey.Queue(sessionKey))
		now = p.Time(ctx)
		seen = p.ZScore(ctx, rediskey.Sessions, sessionKey)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	// It checks again after the last removal, because a message may arrive between the first check
	// and that.
	for _, last := range []bool{false, true} {
		k := rediskey.For(sessionKey)
		anew, err := rdb.Exists(ctx, k.Pending(), k.Active(), k.Scheduled(), k.Retry(), k.Completed(), k.Archived(), k.Stopped()).Result()
		switch {
		case err != nil:
			return err
		case anew > 0:
			return index.ListAndWake(ctx, rdb, sessionKey, now.Val().UnixMilli(), 0)
		case last:
			return nil
		}
		score := fmt.Sprintf("%.0f", seen.Val())
		if err := index.RemoveUnchanged(ctx, rdb, rediskey.Sessions, []string{sessionKey}, map[string]string{sessionKey: score}); err != nil {
			return err
		}
	}
	return nil
}

// Scan visits the keys that match a pattern, of all masters of a Cluster, about 1,000 at a time, some
// of them twice.
func Scan(ctx context.Context, rdb redis.UniversalClient, pattern string, visit func(keys []string) error) error {
	var mu sync.Mutex
	return index.EachMaster(ctx, rdb, func(ctx context.Context, _ string, master redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := master.Scan(ctx, cursor, pattern, 1000).Result()
			if err == nil {
				mu.Lock()
				err = visit(keys)
				mu.Unlock()
			}
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
		}
	})
}
