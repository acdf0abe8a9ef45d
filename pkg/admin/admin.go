// Package admin has the calls of an operator: list sessions and show what they do, rerun and delete
// dead letters, erase conversations, and count the sessions that wait for a worker. The commands
// and metrics of cmd/worker use it.
//
// Reads take no lock and change nothing. The other calls are safe while workers and senders run.
package admin

import (
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// Client makes the calls of an operator. It is safe for concurrent use. It has nothing to close.
type Client struct {
	rdb redis.UniversalClient
	cfg ClientConfig
}

// ClientConfig has the limits of senders and workers. A zero field means its default.
type ClientConfig struct {
	// Limits bound the size of one message.
	Limits session.Limits

	// LineCap is how many messages may wait in one session. Rerun stops at this cap. Defaults to
	// 10,000.
	LineCap int
}

// NewClient returns a client with the default limits. It shares rdb, which the caller closes after
// the last call.
func NewClient(rdb redis.UniversalClient) *Client { return NewClientWith(rdb, ClientConfig{}) }

// NewClientWith is NewClient with other limits.
func NewClientWith(rdb redis.UniversalClient, cfg ClientConfig) *Client {
	cfg.Limits = cfg.Limits.WithDefaults()
	if cfg.LineCap == 0 {
		cfg.LineCap = protocol.DefaultLineCap
	}
	return &Client{rdb: rdb, cfg: cfg}
}
