// Package actors are whom tests of several packages drive: a sender that is an operator as
// well, and a consumer with all that a worker does for itself.
package actors

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/maintenance"
	"turnstile/internal/protocol"
	"turnstile/internal/recovery"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
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
		admin.NewClientWith(rdb, admin.ClientConfig{Limits: cfg.Limits, LineCap: cfg.LineCap}),
	}
}

// Command carries out a slash command and returns its reply.
func (c *Client) Command(ctx context.Context, sessionKey, name, args string) (string, error) {
	r, err := c.Submit(ctx, sessionKey, session.Message{Text: strings.TrimSpace(name + " " + args)})
	if err == nil && r.Status != turnstile.Answered {
		err = fmt.Errorf("%s is no command: its receipt is %+v", name, r)
	}
	return r.Reply, err
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
