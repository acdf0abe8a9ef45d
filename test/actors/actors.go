// Package actors are whom tests of several packages drive: a sender that is an operator as
// well, and a consumer with all that a worker does for itself.
package actors

import (
	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/maintenance"
	"turnstile/internal/protocol"
	"turnstile/internal/recovery"
	"turnstile/pkg/admin"
)

// Client sends, and looks at what became of it.
type Client struct {
	*turnstile.Client
	*operator
}

// operator has another name than the Client's, which it would hide.
type operator = admin.Client

// NewClient makes a client with the default limits.
func NewClient(rdb redis.UniversalClient) *Client {
	return NewClientWith(rdb, turnstile.ClientConfig{})
}

// NewClientWith makes a client with other limits.
func NewClientWith(rdb redis.UniversalClient, cfg turnstile.ClientConfig) *Client {
	return &Client{
		turnstile.NewClientWith(rdb, cfg),
		admin.New(rdb, admin.Config{Limits: cfg.Limits, LineCap: cfg.LineCap}),
	}
}

// Consumer takes messages, recovers sessions and keeps Redis tidy.
type Consumer struct {
	*protocol.Consumer
	*recovery.Recovery
	*maintenance.Maintenance
}

// NewConsumer is protocol.NewConsumer with what belongs to it.
func NewConsumer(rdb redis.UniversalClient, cfg protocol.Config) (*Consumer, error) {
	c, err := protocol.NewConsumer(rdb, cfg)
	if err != nil {
		return nil, err
	}
	return &Consumer{c, recovery.New(rdb, c), maintenance.New(rdb, c)}, nil
}
