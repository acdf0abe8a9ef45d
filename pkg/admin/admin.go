// Package admin reads sessions and carries out operators' calls: list, show, dead letters,
// rerun, erase, backlog.
package admin

import (
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// Client reads sessions and carries out operators' calls. It is safe for concurrent use.
type Client struct {
	rdb redis.UniversalClient
	cfg Config
}

// Config are the limits that hold for senders and workers. Zero values mean the
// defaults.
type Config struct {
	Limits  session.Limits // of one message
	LineCap int            // messages that may wait in one session; Rerun adds no more
}

// New makes a client that shares rdb, which stays the caller's to close.
func New(rdb redis.UniversalClient, cfg Config) *Client {
	cfg.Limits = cfg.Limits.WithDefaults()
	if cfg.LineCap == 0 {
		cfg.LineCap = protocol.DefaultLineCap
	}
	return &Client{rdb: rdb, cfg: cfg}
}
