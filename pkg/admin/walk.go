package admin

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
)

// walk goes through an index, page by page. A cursor names the place that was visited last: its
// score, its key, and how many places with this score were visited. So a walk continues in time that
// does not grow with the index, also if that place has moved meanwhile.
type walk struct {
	name   string // of the index, in cursors
	index  string
	newest bool   // from the highest score
	prefix string // of an index without scores: the walk is by key

	last place // zero: before the first one

	then   *walk    // after the end, nil: nothing
	before []string // indexes with sessions that were visited before
}

// place is a session's place in an index.
type place struct {
	key   string
	score float64
	nth   int64 // among those with this score, from 1, as far as the walk knows
}

// walkOf returns the walk of a query, after its cursor.
func walkOf(q Query) (*walk, error) {
	var w *walk
	switch q.State {
	case "", StateIdle:
		if w = byActivity("sessions", rediskey.Sessions, !q.OldestFirst); q.Prefix != "" && !q.OldestFirst {
			w = &walk{name: "names", index: rediskey.Names, prefix: q.Prefix}
		}
	case StateWaiting:
		sorted := &walk{name: "sorted", index: rediskey.Sorted, before: []string{rediskey.Ready}}
		w = &walk{name: "ready", index: rediskey.Ready, then: sorted}
	case StateDelayed:
		w = &walk{name: "due", index: rediskey.Due}
	case StateStarting, StateRunning:
		w = &walk{name: "owned", index: rediskey.Owned}
	case StateBusy:
		due := &walk{name: "busy-due", index: rediskey.Due, before: []string{rediskey.Owned, rediskey.Ready, rediskey.Sorted}}
		sorted := &walk{name: "busy-sorted", index: rediskey.Sorted, before: []string{rediskey.Owned, rediskey.Ready}, then: due}
		ready := &walk{name: "busy-ready", index: rediskey.Ready, before: []string{rediskey.Owned}, then: sorted}
		w = &walk{name: "busy", index: rediskey.Owned, then: ready}
	case StateDeadLetters, StateUndelivered:
		w = byActivity("sessions", rediskey.Sessions, false)
	case StateAttention, StateAsking, StatePaused, StateSuspended:
		w = byActivity("attention", rediskey.Attention, !q.OldestFirst)
	default:
		return nil, fmt.Errorf("%w state %.100q: it is one of %v", session.ErrInvalid, q.State, []State{
			StateAttention, StateStarting, StateRunning, StateAsking, StatePaused, StateWaiting, StateDelayed, StateSuspended, StateIdle,
			StateBusy, StateDeadLetters, StateUndelivered,
		})
	}
	if q.Only != nil {
		w = &walk{name: "names", index: rediskey.Names, prefix: q.Prefix}
	}
	if q.Cursor == "" {
		return w, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	words := strings.Split(string(text), " ")
	for ; err == nil && len(words) == 4 && w != nil; w = w.then {
		if words[0] != w.name {
			continue
		}
		w.last.key = words[3]
		if w.last.score, err = strconv.ParseFloat(words[1], 64); err == nil {
			w.last.nth, err = strconv.ParseInt(words[2], 10, 64)
		}
		if err == nil && session.ValidateKey(w.last.key) == nil {
			return w, nil
		}
		break
	}
	return nil, fmt.Errorf("%w cursor: it is the next of a page of the same query", session.ErrInvalid)
}

// byActivity returns a walk of an index of times.
func byActivity(name, index string, newest bool) *walk {
	if !newest {
		name += "-oldest"
	}
	return &walk{name: name, index: index, newest: newest}
}

func (w *walk) cursor(p place) string {
	return base64.RawURLEncoding.EncodeToString([]byte(fmt.Sprintf("%s %s %d %s", w.name, scoreText(p.score), p.nth, p.key)))
}

func scoreText(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) }

// next returns the next n places, fewer at the end.
func (w *walk) next(ctx context.Context, rdb redis.UniversalClient, n int) ([]place, error) {
	var places []place
	if w.index == rediskey.Names {
		start := "[" + w.prefix
		if w.last.key != "" {
			start = "(" + w.last.key
		}
		keys, err := rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: w.index, ByLex: true, Start: start, Stop: "[" + w.prefix + "\xff", Count: int64(n)}).Result()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			places = append(places, place{key: key})
		}
	} else {
		start, err := w.start(ctx, rdb)
		if err != nil {
			return nil, err
		}
		members, err := rdb.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: w.index, Start: start, Stop: start + int64(n) - 1, Rev: w.newest}).Result()
		if err != nil {
			return nil, err
		}
		last := w.last
		for _, m := range members {
			p := place{score: m.Score, nth: 1}
			if p.key, _ = m.Member.(string); last.key != "" && last.score == p.score {
				p.nth = last.nth + 1
			}
			places, last = append(places, p), p
		}
	}
	if len(places) > 0 {
		w.last = places[len(places)-1]
	}
	return places, nil
}

// start returns the rank after the last place.
func (w *walk) start(ctx context.Context, rdb redis.UniversalClient) (int64, error) {
	if w.last.key == "" {
		return 0, nil
	}
	var score *redis.FloatCmd
	var rank, before *redis.IntCmd
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		score = p.ZScore(ctx, w.index, w.last.key)
		if w.newest {
			rank, before = p.ZRevRank(ctx, w.index, w.last.key), p.ZCount(ctx, w.index, "("+scoreText(w.last.score), "+inf")
		} else {
			rank, before = p.ZRank(ctx, w.index, w.last.key), p.ZCount(ctx, w.index, "-inf", "("+scoreText(w.last.score))
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // the pipeline returns the Nil of a missing member as it is
		return 0, err
	}
	if score.Err() == nil && rank.Err() == nil && score.Val() == w.last.score {
		w.last.nth = rank.Val() - before.Val() + 1
	} else {
		w.last.nth-- // it has moved: the others with its score move up
	}
	return before.Val() + w.last.nth, nil
}

// fresh keeps the sessions that are in no index that was walked before.
func (w *walk) fresh(ctx context.Context, rdb redis.UniversalClient, keys []string) (rest []string, err error) {
	for _, before := range w.before {
		if keys, err = index.NewWalker(rdb).Absent(ctx, before, keys); err != nil {
			return nil, err
		}
	}
	return keys, nil
}
