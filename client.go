package turnstile

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// Client sends to sessions and follows them. It is safe for concurrent use and has nothing to close.
// Make one with NewClient.
type Client struct {
	rdb    redis.UniversalClient
	cfg    ClientConfig
	sender *protocol.Sender
	waits  *waits
	admin  *admin.Client
}

// ClientConfig has a Client's settings. A zero field means its default.
type ClientConfig struct {
	Limits session.Limits

	// RememberIDs is how long the senders' message IDs are remembered. Meanwhile the same message is
	// not carried out again, and another one with its ID is refused (session.ErrConflict). Defaults to
	// 24 h, also if it is negative.
	RememberIDs time.Duration

	// DefaultReplyTo returns the destination of a message if neither the message nor its session has
	// one; "" is none. It is called by each Send. Defaults to nil: none.
	DefaultReplyTo func(sessionKey string) string
}

// NewClient returns a client. It shares rdb, which the caller closes after the last call. Two configs panic.
func NewClient(rdb redis.UniversalClient, config ...ClientConfig) *Client {
	cfg := only(config)
	cfg.Limits = cfg.Limits.WithDefaults()
	if cfg.RememberIDs <= 0 {
		cfg.RememberIDs = protocol.DefaultIdempotencyTTL
	}
	return &Client{
		rdb: rdb, cfg: cfg, sender: protocol.NewSender(rdb), waits: newWaits(rdb),
		admin: admin.NewClient(rdb, admin.Config{Limits: cfg.Limits}),
	}
}

// only returns the config of a call, or a zero one. Two panic.
func only[C any](config []C) (c C) {
	switch len(config) {
	case 0:
		return c
	case 1:
		return config[0]
	}
	panic("turnstile: give one config at most")
}

// Session returns a handle on a session. It costs nothing: a session needs no creation, and a wrong
// key is the error of each call (session.ErrInvalid).
func (c *Client) Session(key string) *Session { return &Session{c: c, key: key} }

// Session is a handle on one session. It is safe for concurrent use and has nothing to close. The
// errors of calls that change something wrap session.ErrInvalid if the session's key is wrong.
// session.ErrUnchanged says that nothing was changed.
type Session struct {
	c    *Client
	key  string
	user string // who decides, by As
}

// Key returns the session's key.
func (s *Session) Key() string { return s.key }

// As returns a handle with user as the author of what it changes: the session's audit
// (admin.Session.Audit) has the name, and a decision's event has it as Event.By. It has at most 512 bytes,
// else a decision's error wraps session.ErrInvalid. A gateway writes its token's name, a slash and the
// user.
func (s *Session) As(user string) *Session { return &Session{c: s.c, key: s.key, user: user} }

const (
	// signWindow is how long HasWorker looks for the keys of these jobs. It is longer than the
	// pause between two runs, even with a slow Redis.
	signWindow = 1500 * time.Millisecond

	signEvery = 40 * time.Millisecond
)

// HasWorker reports whether a worker runs on this Redis database. It looks for heartbeats and for
// the jobs of every worker, also of one without maintenance. It usually returns true after one
// command, and false after 1.5 seconds. It returns an error if a read fails, for example because
// the Redis user may not read these keys, if Redis stores nothing, so that workers cannot show that they
// live, or if ctx ends.
func (c *Client) HasWorker(ctx context.Context) (bool, error) {
	if has, err := c.hasHeartbeat(ctx); has || err != nil {
		return has, err
	}
	tick := time.NewTicker(signEvery)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < signWindow; {
		for _, job := range maintenance.EverySecond() { // one by one: on a Cluster they have different slots
			n, err := c.rdb.Exists(ctx, rediskey.Timer(job)).Result()
			if err != nil {
				return false, fmt.Errorf("look for workers: %w", err)
			}
			if n > 0 {
				return true, nil
			}
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick.C:
		}
	}
	if err := maintenance.Ping(ctx, c.rdb); err != nil {
		return false, fmt.Errorf("look for workers: %w", err)
	}
	return c.hasHeartbeat(ctx) // a worker may have started meanwhile
}

func (c *Client) hasHeartbeat(ctx context.Context) (bool, error) {
	n, err := maintenance.CountHeartbeats(ctx, c.rdb)
	if err != nil {
		return false, fmt.Errorf("look for workers: %w", err)
	}
	return n > 0, nil
}
