package turnstile

import (
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// Client sends messages to sessions and waits for their outcomes. It is safe for concurrent use. It
// has nothing to close. Make one with NewClient.
type Client struct {
	rdb    redis.UniversalClient
	cfg    ClientConfig
	sender *protocol.Sender
	waits  *waits
	admin  *admin.Client
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

	// OutboxCap is how many outcomes of a session's messages may be owed to destinations or wait for
	// their delivery (ReplyTo). Defaults to 1,000.
	OutboxCap int

	// DestinationCap is how many outcomes all sessions together may owe one destination or store for
	// it. Workers count them every 20 s and senders read the counts once a second, so senders may
	// exceed it by what they send meanwhile. Defaults to 1,000,000; if it is negative, there is no
	// such cap.
	DestinationCap int

	// IdempotencyTTL is for how long the id that a sender gave a message stands for this message:
	// a message with the same id and another text is refused with session.ErrConflict, and the
	// same one again is never carried out twice, also when its result is no longer kept. Defaults
	// to 24 h, also if it is negative.
	IdempotencyTTL time.Duration
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
	if cfg.OutboxCap == 0 {
		cfg.OutboxCap = protocol.DefaultOutboxCap
	}
	if cfg.DestinationCap == 0 {
		cfg.DestinationCap = protocol.DefaultDestinationCap
	}
	if cfg.IdempotencyTTL <= 0 {
		cfg.IdempotencyTTL = protocol.DefaultIdempotencyTTL
	}
	return &Client{
		rdb: rdb, cfg: cfg, sender: protocol.NewSender(rdb), waits: newWaits(rdb),
		admin: admin.NewClientWith(rdb, admin.ClientConfig{Limits: cfg.Limits, LineCap: cfg.LineCap}),
	}
}
