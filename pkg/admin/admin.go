// Package admin has the calls of an operator: list and show sessions, rerun and delete dead
// letters, erase sessions, and count the sessions that wait for a worker. The commands and metrics
// of cmd/worker use it.
//
// Reads take no lock and change nothing. The other calls are safe while workers and senders run.
package admin

import (
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
)

// All as a message ID or destination means all of them. No IDs mean none.
const All = "*"

// Client makes an operator's calls. It is safe for concurrent use and has nothing to close.
type Client struct {
	rdb redis.UniversalClient
	cfg Config
}

// Config has the limits of senders and workers. A zero field means its default.
type Config struct {
	Limits session.Limits // Rerun stops at Limits.Queue
}

// NewClient returns a client. Two configs panic. It shares rdb, which the caller closes.
func NewClient(rdb redis.UniversalClient, config ...Config) *Client {
	var cfg Config
	switch len(config) {
	case 0:
	case 1:
		cfg = config[0]
	default:
		panic("admin.NewClient takes one Config at most")
	}
	cfg.Limits = cfg.Limits.WithDefaults()
	return &Client{rdb: rdb, cfg: cfg}
}

// Session is an operator's handle on a session. It is safe for concurrent use and has nothing to
// close.
type Session struct {
	admin *Client
	key   string
	user  string // of As
}

// Session returns a handle. It costs nothing; a wrong key is the error of each call
// (session.ErrInvalid).
func (a *Client) Session(key string) *Session { return &Session{admin: a, key: key} }

// As returns a handle with user as the author of what it changes, see Audit.
func (s *Session) As(user string) *Session { return &Session{admin: s.admin, key: s.key, user: user} }

// Key returns the session's key.
func (s *Session) Key() string { return s.key }

func (s *Session) keys() rediskey.Session { return rediskey.For(s.key) }

// broken marks the error of a key of a wrong type as session.ErrBroken: other sessions are not concerned.
func broken(err error) error {
	if redisconn.WrongType(err) {
		return fmt.Errorf("%w: %w", session.ErrBroken, err)
	}
	return err
}

// visited makes an iterator of each, which returns when visit has returned false. An error comes last.
func visited[T any](sessionKey string, each func(visit func(T) bool) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := session.ValidateKey(sessionKey)
		if err == nil {
			err = each(func(v T) bool { return yield(v, nil) })
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}
