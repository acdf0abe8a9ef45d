// Package actors has a sender, an operator and a worker, on a Redis of a test's own, for the tests
// of several packages.
package actors

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/maintenance"
	"turnstile/internal/protocol"
	"turnstile/internal/recovery"
	"turnstile/pkg/admin"
)

// Client sends messages and reads their outcomes.
type Client struct {
	*turnstile.Client
	*operator
}

// operator is admin.Client under another name, which does not hide the embedded turnstile.Client.
type operator = admin.Client

// NewClient makes a client with the default limits.
func NewClient(rdb redis.UniversalClient) *Client {
	return NewClientWith(rdb, turnstile.ClientConfig{})
}

// NewClientWith makes a client with other limits.
func NewClientWith(rdb redis.UniversalClient, cfg turnstile.ClientConfig) *Client {
	return &Client{
		turnstile.NewClient(rdb, cfg),
		admin.NewClientWith(rdb, admin.ClientConfig{Limits: cfg.Limits, LineCap: cfg.LineCap}),
	}
}

// Session hides the operator's.
func (c *Client) Session(key string) *turnstile.Session { return c.Client.Session(key) }

// Command carries out a slash command and returns its reply.
func (c *Client) Command(ctx context.Context, sessionKey, name, args string) (string, error) {
	return c.Session(sessionKey).Command(ctx, strings.TrimSpace(name+" "+args))
}

// Consumer takes messages, recovers sessions and keeps Redis tidy.
type Consumer struct {
	*protocol.Consumer
	*recovery.Recovery
	*maintenance.Maintenance
}

// NewConsumer makes a protocol.Consumer with recovery and maintenance.
func NewConsumer(rdb redis.UniversalClient, cfg protocol.Config) (*Consumer, error) {
	c, err := protocol.NewConsumer(rdb, cfg)
	if err != nil {
		return nil, err
	}
	return &Consumer{c, recovery.New(rdb, c), maintenance.New(rdb, c)}, nil
}
