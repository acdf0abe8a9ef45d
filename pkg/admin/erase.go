package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// eraseBatch is the most messages, and the most other keys, that one script deletes. More would
// block Redis.
const eraseBatch = 500

// EraseOption changes one Erase.
type EraseOption func(*eraseOptions)

type eraseOptions struct {
	drop   bool
	unused time.Duration // see protocol.Erase
}

// EraseUndelivered has Erase delete deliveries as well.
func EraseUndelivered() EraseOption { return func(o *eraseOptions) { o.drop = true } }

// UndeliveredError says that a session's outcomes are owed to destinations or are not delivered.
type UndeliveredError struct {
	Owed        int // messages that have not ended
	Undelivered int // deliveries that are stored
}

// usedError says that a temporary session is used, and when to look again, 0 if unknown.
type usedError struct{ at int64 }

func (*usedError) Error() string { return "the session is used" }

// Error says how many there are.
func (e *UndeliveredError) Error() string {
	return fmt.Sprintf("%d outcomes are owed to destinations, %d are not delivered", e.Owed, e.Undelivered)
}

// Erase deletes every key of a session: messages, results, dead letters, transcripts, events, title
// and settings. To find the transcripts of earlier session ids it scans all keys of the database.
// An unknown session is no error.
//
// The error wraps session.ErrBusy if a turn is running. Then nothing is deleted, except if the turn
// started during the call and the session has more than 500 messages: some of these may be deleted.
// The error wraps session.ErrInvalid if the session key is wrong. After any other error, call Erase
// again.
//
// While an outcome is owed to a destination, or is not delivered, the error is an UndeliveredError and
// nothing is deleted, unless EraseUndelivered is given.
//
// A message that arrives during the call is deleted too, or starts the session anew.
func (a *Client) Erase(ctx context.Context, sessionKey string, options ...EraseOption) error {
	var o eraseOptions
	for _, set := range options {
		set(&o)
	}
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	err := a.erase(ctx, sessionKey, o, func() ([]string, error) { return a.scan(ctx, rediskey.For(sessionKey).Any()) })
	switch {
	case errors.Is(err, session.ErrBusy):
		return fmt.Errorf("%w in session %s", session.ErrBusy, sessionKey)
	case err != nil:
		return fmt.Errorf("erase %s: %w", sessionKey, err)
	}
	return nil
}

// erase erases a session whose keys list returns, beside those that every session has.
func (a *Client) erase(ctx context.Context, sessionKey string, o eraseOptions, list func() ([]string, error)) error {
	k := rediskey.For(sessionKey)
	for {
		fence, many, err := a.eraseWhat(ctx, k)
		if err != nil {
			return err
		}
		// While there are many messages it deletes only these: each task is a key that the scan
		// would return.
		var found []string
		if !many {
			if found, err = list(); err != nil {
				return err
			}
		}
		gone, err := a.eraseBatches(ctx, sessionKey, fence, found, !many, o)
		if err != nil {
			return err
		}
		if gone {
			return a.unlist(ctx, sessionKey)
		}
	}
}

// eraseBatches deletes a batch of messages, and the found keys. all says that found has every key
// of the session. gone reports that nothing is left.
func (a *Client) eraseBatches(ctx context.Context, sessionKey, fence string, found []string, all bool, o eraseOptions) (gone bool, err error) {
	own := protocol.Keys(sessionKey, "", time.Now())
	// For example transcripts of earlier session ids, which no worker uses any more.
	others := slices.DeleteFunc(slices.Clone(found), func(key string) bool { return slices.Contains(own, key) })
	for {
		part := others[:min(len(others), eraseBatch)]
		others = others[len(part):]
		state, why, err := protocol.Erase{
			Session: sessionKey, Fence: fence, Batch: eraseBatch, Others: part, Last: all && len(others) == 0, Keep: !o.drop, Unused: o.unused,
		}.Do(ctx, a.rdb)
		switch {
		case err != nil:
			return false, err
		case state == "held":
			return false, session.ErrBusy
		case state == "owed":
			return false, &UndeliveredError{Owed: why.Owed, Undelivered: why.Stored}
		case state == "used":
			return false, &usedError{why.At}
		case state != "batch" || len(others) == 0:
			return state == "gone", nil
		}
	}
}

// eraseWhat returns the fencing token of the last turn, "" if there was none, and whether the
// session has more messages than one script deletes.
func (a *Client) eraseWhat(ctx context.Context, k rediskey.Session) (fence string, many bool, err error) {
	var last *redis.StringCmd
	var counts []*redis.IntCmd
	_, err = a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
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

// unlist removes an erased session from the indexes. If a message has arrived meanwhile, it wakes
// the session again, because the sender may have woken it before the removal. It removes the
// session from the list of sessions last, and only if no message has touched it: if unlist fails
// before that, the sweep finds the session.
func (a *Client) unlist(ctx context.Context, sessionKey string) error {
	var seen *redis.FloatCmd
	var now *redis.TimeCmd
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, index := range []string{rediskey.Ready, rediskey.Due, rediskey.Owned, rediskey.Unlisted, rediskey.Names, rediskey.Attention, rediskey.Outbox} {
			p.ZRem(ctx, index, sessionKey)
		}
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
		anew, err := a.rdb.Exists(ctx, k.Pending(), k.Active(), k.Scheduled(), k.Retry(), k.Completed(), k.Archived(), k.Stopped()).Result()
		switch {
		case err != nil:
			return err
		case anew > 0:
			return protocol.ListAndWake(ctx, a.rdb, sessionKey, now.Val().UnixMilli(), 0)
		case last:
			return nil
		}
		score := fmt.Sprintf("%.0f", seen.Val())
		if err := protocol.RemoveUnchanged(ctx, a.rdb, rediskey.Sessions, []string{sessionKey}, map[string]string{sessionKey: score}); err != nil {
			return err
		}
	}
	return nil
}

// scan returns the keys that match a pattern, of all masters of a Cluster.
func (a *Client) scan(ctx context.Context, pattern string) (found []string, err error) {
	var mu sync.Mutex
	err = protocol.EachMaster(ctx, a.rdb, func(ctx context.Context, _ string, rdb redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := rdb.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			found = append(found, keys...)
			mu.Unlock()
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
	return found, err
}
