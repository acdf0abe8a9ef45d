package turnstile

import (
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// Client sends messages to sessions and waits for their outcomes. It is safe for concurrent use. It
// has nothing to close. Make one with NewClient.
type Client struct {
	rdb   redis.UniversalClient
	cfg   ClientConfig
	tasks *protocol.Enqueuer
	waits *waits
	admin *admin.Client
}

// ClientConfig sets what a Client accepts. A zero field means its default. Workers have settings of
// the same names, with the same defaults (docs/settings.md): change both.
type ClientConfig struct {
	// Limits bound the size of one message.
	Limits session.Limits

	// LineCap is how many messages may wait in one session, whether or not a turn runs. Delayed
	// messages may fill half of it, rounded up. Defaults to 10,000.
	LineCap int

	// MessagesCap is how many messages may wait in all sessions together. Workers count them every
	// 20 s, so senders may exceed it by what they send meanwhile. Messages for a session with a
	// running turn count against LineCap only. Defaults to 0: no cap.
	MessagesCap int
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
	return &Client{
		rdb: rdb, cfg: cfg, tasks: protocol.NewEnqueuer(rdb, cfg.Limits), waits: newWaits(rdb),
		admin: admin.NewClientWith(rdb, admin.ClientConfig{Limits: cfg.Limits, LineCap: cfg.LineCap}),
	}
}
