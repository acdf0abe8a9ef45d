// Package admin has the operators' calls: it lists sessions and shows what they do, reruns
// and deletes dead letters, erases conversations, and counts the sessions that wait for a
// worker. The commands of cmd/worker and its metrics are made of them.
//
// Reads take no lock and change nothing. Calls that change something are safe while
// workers and senders are at work.
package admin

import (
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
)

// Client carries out operators' calls. It is safe for concurrent use. It has nothing to
// close.
type Client struct {
	rdb redis.UniversalClient
	cfg ClientConfig
}

// ClientConfig has the limits of senders and workers. A zero field means its default.
type ClientConfig struct {
	// Limits bound the size of one message.
	Limits session.Limits

	// LineCap is how many messages may wait in one session: Rerun stops there. Defaults
	// to 10,000.
	LineCap int
}

// NewClient returns a client with the default limits. It shares rdb, which the caller
// closes after the last call.
func NewClient(rdb redis.UniversalClient) *Client { return NewClientWith(rdb, ClientConfig{}) }

// NewClientWith is NewClient with other limits.
func NewClientWith(rdb redis.UniversalClient, cfg ClientConfig) *Client {
	cfg.Limits = cfg.Limits.WithDefaults()
	if cfg.LineCap == 0 {
		cfg.LineCap = protocol.DefaultLineCap
	}
	return &Client{rdb: rdb, cfg: cfg}
}
