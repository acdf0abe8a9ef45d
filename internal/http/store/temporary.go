package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/script"
	"turnstile/pkg/session"
)

// temporaryBatch is how many temporary sessions one call of EraseTemporary looks at.
const temporaryBatch = 100

// temporaryAtOnce is how many of them it erases at once: each takes about seven round trips.
const temporaryAtOnce = 8

// MakeTemporary has EraseTemporary erase a session some time after its last turn. Call it before the
// session's first message is sent: if this program dies then, another one erases the session.
//
// If the session exists and is not temporary, nothing changes, and the error wraps
// session.ErrInvalid. So it does if the first message arrives during the call.
func (s *Store) MakeTemporary(ctx context.Context, sessionKey string) error {
	if err := session.ValidateKey(sessionKey); err != nil {
		return err
	}
	switch exists, err := s.makeTemporary(ctx, sessionKey); {
	case err != nil:
		return fmt.Errorf("make %s temporary: %w", sessionKey, err)
	case exists:
		return fmt.Errorf("%w temporary session %s: it exists", session.ErrInvalid, sessionKey)
	}
	return nil
}

// makeTemporary returns whether the session exists and is not temporary.
func (s *Store) makeTemporary(ctx context.Context, sessionKey string) (exists bool, err error) {
	record := rediskey.For(sessionKey).Record()
	found, err := s.rdb.Exists(ctx, record).Result()
	if err != nil {
		return false, err
	}
	if found > 0 {
		err := s.rdb.ZScore(ctx, rediskey.Temporary, sessionKey).Err()
		if errors.Is(err, redis.Nil) {
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	// With a score of 0 or less the first look only sets the time of the next one, by Redis' clock.
	added, err := s.rdb.ZAddNX(ctx, rediskey.Temporary, redis.Z{Member: sessionKey}).Result()
	if err != nil {
		return false, err
	}
	if added == 0 { // another call added it, and now does not remove it because of this call's message
		return false, s.rdb.ZAdd(ctx, rediskey.Temporary, redis.Z{Score: -1, Member: sessionKey}).Err()
	}
	// A message that arrived after the first look may belong to a session that must stay.
	if found, err = s.rdb.Exists(ctx, record).Result(); err != nil || found == 0 {
		return false, err
	}
	removed, err := index.RescoreUnchanged(ctx, s.rdb, rediskey.Temporary, []string{sessionKey}, map[string]string{sessionKey: "0"}, nil)
	return removed > 0, err
}

// EraseTemporary erases temporary sessions that are idle for at least after. It checks a
// session again after another period of after if it has messages, or outcomes that are undelivered or
// still to come. Outcomes that were given up count as undelivered until the session's record expires.
// more says that other sessions are due now. An error of one session does not stop the rest. Programs
// that call it at the same time share the work.
func (s *Store) EraseTemporary(ctx context.Context, after time.Duration) (erased int, more bool, err error) {
	now, _, keys, scores, err := index.ReadDue(ctx, s.rdb, rediskey.Temporary, temporaryBatch)
	if err != nil {
		return 0, false, fmt.Errorf("read temporary sessions: %w", err)
	}
	again := strconv.FormatInt(now+after.Milliseconds(), 10)
	later := map[string]string{}
	for _, key := range keys {
		later[key] = again
	}
	more = len(keys) == temporaryBatch
	// First, so that another program that has read the same sessions leaves them to this one.
	moved, err := index.RescoreUnchanged(ctx, s.rdb, rediskey.Temporary, keys, scores, later)
	if err != nil {
		return 0, false, fmt.Errorf("reschedule temporary sessions: %w", err)
	}
	if moved == 0 {
		return 0, more, nil
	}
	var looked []string
	var problems []error
	to := map[string]string{} // those that are not in it leave the index
	var mu sync.Mutex
	var all sync.WaitGroup
	free := make(chan struct{}, temporaryAtOnce)
	for _, key := range keys {
		if script.Number(scores[key]) <= 0 {
			continue
		}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			gone, at, err := s.eraseTemporary(ctx, key, now, after)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				problems = append(problems, err)
			case gone:
				erased++
				looked = append(looked, key)
			case at > 0:
				to[key] = strconv.FormatInt(at, 10)
				looked = append(looked, key)
			}
		})
	}
	all.Wait()
	if _, err := index.RescoreUnchanged(ctx, s.rdb, rediskey.Temporary, looked, later, to); err != nil {
		problems = append(problems, fmt.Errorf("reschedule temporary sessions: %w", err))
	}
	return erased, more, errors.Join(problems...)
}

// eraseTemporary erases a session unless it is in use, which the script checks. at is when to look
// again, 0 if unknown.
func (s *Store) eraseTemporary(ctx context.Context, key string, now int64, after time.Duration) (gone bool, at int64, err error) {
	k := rediskey.For(key)
	err = maintenance.Erase{Session: key, Unused: max(after, time.Millisecond), List: func() ([]string, error) {
		// It does not scan all keys, because every chat has a session. Earlier transcripts, which a
		// temporary session hardly has, expire by themselves.
		day := time.UnixMilli(now).UTC().AddDate(0, 0, -1).Format(":2006-01-02")
		known := []string{k.Processed() + day, k.Failed() + day}
		id, err := s.rdb.HGet(ctx, k.Record(), "session_id").Result()
		if errors.Is(err, redis.Nil) {
			return known, nil
		}
		return append(known, k.Transcript(id)), err
	}}.Do(ctx, s.rdb)
	var used *maintenance.UsedError
	switch {
	case errors.As(err, &used):
		return false, used.At, nil
	case errors.Is(err, session.ErrBusy), errors.Is(err, session.ErrUndelivered):
		return false, 0, nil
	case err != nil:
		return false, 0, fmt.Errorf("erase %s: %w", key, err)
	}
	return true, 0, nil
}
