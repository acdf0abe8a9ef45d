package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
)

// browsePage is how many sessions a round trip reads.
const browsePage = 500

// globPattern matches the patterns of Browse: the characters of a session key, and the wildcards.
var globPattern = regexp.MustCompile(`^[A-Za-z0-9._:@+=~*?\[\]^-]{1,256}$`)

// ValidateGlob returns an error if a pattern cannot match session keys. In a pattern * stands for
// any characters, ? for one, [a-z] for one of these. The error wraps session.ErrInvalid.
func ValidateGlob(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || !globPattern.MatchString(pattern) {
		return fmt.Errorf("%w pattern %q: it has the characters of a session's key, and * ? [a-z] for any of them", session.ErrInvalid, pattern)
	}
	return nil
}

// Browse visits the sessions whose keys match pattern; "" matches all. The session whose last
// activity is oldest comes first. Sessions that no worker or Client of Turnstile has used yet come
// last: a plain asynq.Client has just enqueued their first message.
//
// It reads a page of sessions at a time. A session that is used meanwhile may come twice. An error
// comes last, with a zero SessionState.
func (a *Client) Browse(ctx context.Context, pattern string) iter.Seq2[SessionState, error] {
	return func(yield func(SessionState, error) bool) {
		visit := func(keys []string) error {
			infos, err := a.sessions(ctx, matching(pattern, keys))
			if err != nil {
				return err
			}
			states, err := a.States(ctx, infos)
			for _, s := range states {
				if !yield(s, nil) {
					return errEnough
				}
			}
			return err
		}
		err := byTime(ctx, a.rdb, rediskey.Sessions, "-inf", visit)
		if err == nil {
			w := protocol.NewWalker(a.rdb)
			err = w.EachQueue(ctx, func(sessions []string) error {
				sessions, err := w.Absent(ctx, rediskey.Sessions, sessions)
				if err != nil {
					return err
				}
				return visit(sessions)
			})
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(SessionState{}, fmt.Errorf("list sessions: %w", err))
		}
	}
}

func matching(pattern string, keys []string) []string {
	if pattern == "" {
		return keys
	}
	var found []string
	for _, key := range keys {
		if ok, err := path.Match(pattern, key); ok && err == nil {
			found = append(found, key)
		}
	}
	return found
}

// byTime visits the sessions of an index by their times, such as that of their last activity, from one
// on. The times only rise, so a session that is used meanwhile moves to a later page and is not missed.
func byTime(ctx context.Context, rdb redis.UniversalClient, index, from string, visit func(keys []string) error) error {
	seen := map[string]bool{} // visited sessions with the time from
	for {
		page, err := rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: index, Start: from, Stop: "+inf", ByScore: true, Count: int64(browsePage + len(seen)),
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
		if err := visit(protocol.Walker{}.ValidNames(keys)); err != nil {
			return err
		}
	}
}
