package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/index"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// Query selects sessions. The zero Query means all.
//
// The order depends on the State. All sessions, and StateIdle: by activity; with a Prefix by key, unless
// OldestFirst is set. StateWaiting: the longest wait first. StateDelayed: the next one that is due first.
// StateAttention, StateAsking, StatePaused and StateSuspended: by activity. StateDeadLetters and
// StateUndelivered: the oldest activity first. With Only always by key.
//
// A session that asynqmon or a dead worker has paused, suspended or given dead letters is listed by
// StateAttention and similar states with the next sweep, usually within TURNSTILE_SWEEP_INTERVAL. After
// Redis was empty, the order by key is complete after that, too.
type Query struct {
	State       State
	Prefix      string            // of the key
	Title       string            // a part of the title, in any case of letters
	Match       string            // a pattern of the key, with * ? [a-z]
	Only        func(string) bool // the only keys that the caller may see: a page and its Next name no others
	OldestFirst bool              // by activity. Defaults to the newest first
	Cursor      string            // Page.Next of the page before
	Limit       int               // of a page, at most 500. Defaults to 100
}

// pageMost is the largest Query.Limit, and how many sessions Sessions reads at a time.
const pageMost = 500

// matchPattern matches the patterns of Query.Match: the characters of a session key, and the wildcards.
var matchPattern = regexp.MustCompile(`^[A-Za-z0-9._:@+=~*?\[\]^-]{1,256}$`)

// Validate returns an error if no session can be read by the query; it wraps session.ErrInvalid. Every
// call with a Query checks it, too.
func (q Query) Validate() error {
	_, err := q.walk()
	return err
}

// walk checks the query and returns the walk that it begins with.
func (q Query) walk() (*walk, error) {
	if q.Limit < 0 || q.Limit > pageMost {
		return nil, fmt.Errorf("%w limit %d: it is from 1 to %d", session.ErrInvalid, q.Limit, pageMost)
	}
	if q.Prefix != "" {
		if err := session.ValidateKey(q.Prefix); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
	}
	if q.Match != "" {
		if _, err := path.Match(q.Match, ""); err != nil || !matchPattern.MatchString(q.Match) {
			return nil, fmt.Errorf("%w pattern %q: it has the characters of a session's key, and * ? [a-z] for any of them", session.ErrInvalid, q.Match)
		}
	}
	return walkOf(q)
}

// names reports whether the query matches a session with this key.
func (q Query) names(key string) bool {
	matches, err := path.Match(q.Match, key)
	return strings.HasPrefix(key, q.Prefix) && (q.Match == "" || matches && err == nil)
}

// means reports whether the query matches a session in this state.
func (q Query) means(s SessionInfo) bool {
	switch q.State {
	case "", StateUndelivered: // stored has checked it
		return true
	case StateBusy, StateDeadLetters, StateAttention:
		if s.Broken != "" { // it may be one
			return true
		}
	}
	switch q.State {
	case StateBusy:
		return s.Phase != session.PhaseIdle || s.Waiting+s.Delayed > 0
	case StateDeadLetters:
		return s.DeadLetters > 0
	case StateAttention:
		return s.Paused || s.Suspended || s.DeadLetters > 0 || len(s.Failing) > 0 || s.GivenUp > 0 || s.Needs != "" || s.Phase != session.PhaseIdle && s.Question != nil
	}
	return s.State == q.State
}

// stored are keys of which every matching session has one; nil: not necessarily.
func (q Query) stored() []func(rediskey.Session) string {
	switch q.State {
	case StateDeadLetters:
		return []func(rediskey.Session) string{rediskey.Session.Archived}
	case StateUndelivered:
		return []func(rediskey.Session) string{rediskey.Session.Outbox, rediskey.Session.Undelivered}
	}
	return nil
}

// read reads the matching ones of the sessions.
func (a *Client) read(ctx context.Context, q Query, keys []string) ([]SessionInfo, error) {
	var some []string
	for _, key := range (index.Walker{}).ValidNames(keys) {
		if q.names(key) && (q.Only == nil || q.Only(key)) {
			some = append(some, key)
		}
	}
	if stored := q.stored(); stored != nil && len(some) > 0 {
		var err error
		if some, err = index.NewWalker(a.rdb).WithTasks(ctx, some, stored...); err != nil {
			return nil, err
		}
	}
	if q.Title != "" && len(some) > 0 {
		var err error
		if some, err = a.titled(ctx, q.Title, some); err != nil {
			return nil, err
		}
	}
	list, err := a.infos(ctx, some)
	found := list[:0]
	for _, s := range list {
		if q.means(s) {
			found = append(found, s)
		}
	}
	return found, err
}

// titled returns the sessions with a text in their titles.
func (a *Client) titled(ctx context.Context, text string, keys []string) (some []string, err error) {
	titles := make([]*redis.StringCmd, len(keys))
	cmds, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			titles[i] = p.HGet(ctx, rediskey.For(key).Record(), "title")
		}
		return nil
	})
	if err := redisconn.Failure(cmds, err); err != nil {
		return nil, err
	}
	text = strings.ToLower(text)
	for i, key := range keys {
		if strings.Contains(strings.ToLower(titles[i].Val()), text) {
			some = append(some, key)
		}
	}
	return some, nil
}

// errEnough ends a walk when its caller needs no more.
var errEnough = errors.New("enough")

// Sessions visits the sessions of a query, from its Cursor on, 500 at a time. Limit is ignored. In
// the order by activity, sessions that no worker or Client of Turnstile has used yet come last: an
// asynq.Client has just enqueued their first message.
//
// A session that is used meanwhile may come twice. In the order of the oldest activity none is
// missed. Other orders may miss a session that is used before it was visited.
func (a *Client) Sessions(ctx context.Context, q Query) iter.Seq2[SessionInfo, error] {
	return func(yield func(SessionInfo, error) bool) {
		q.Limit = 0
		w, err := q.walk()
		if err != nil {
			yield(SessionInfo{}, err)
			return
		}
		err = a.visit(ctx, q, w, func(s SessionInfo) bool { return yield(s, nil) })
		if err != nil && !errors.Is(err, errEnough) {
			yield(SessionInfo{}, fmt.Errorf("list sessions: %w", err))
		}
	}
}

// visit visits the sessions of a query from a walk on.
func (a *Client) visit(ctx context.Context, q Query, w *walk, see func(SessionInfo) bool) error {
	look := func(keys []string) error {
		list, err := a.read(ctx, q, keys)
		for _, s := range list {
			if !see(s) {
				return errEnough
			}
		}
		return err
	}
	known := w.index == rediskey.Sessions
	for w != nil {
		places, err := w.next(ctx, a.rdb, pageMost)
		if err != nil {
			return err
		}
		keys := make([]string, len(places))
		for i, p := range places {
			keys[i] = p.key
		}
		if keys, err = w.fresh(ctx, a.rdb, keys); err == nil {
			err = look(keys)
		}
		if err != nil {
			return err
		}
		if len(places) < pageMost {
			w = w.then
		}
	}
	if !known {
		return nil
	}
	all := index.NewWalker(a.rdb)
	return all.EachQueue(ctx, func(keys []string) error {
		keys, err := all.Absent(ctx, rediskey.Sessions, keys)
		if err != nil {
			return err
		}
		return look(keys)
	})
}
