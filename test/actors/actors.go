// Package actors has a sender, an operator and a worker, on a Redis of a test's own, for the tests
// of several packages.
package actors

import (
	"context"
	"iter"
	"strings"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/maintenance"
	"turnstile/internal/protocol/recovery"
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
		admin.NewClient(rdb, admin.Config{Limits: cfg.Limits}),
	}
}

// Operate returns an operator's handle on a session.
func (c *Client) Operate(sessionKey string) *admin.Session { return c.operator.Session(sessionKey) }

// Collect returns the values of an iterator.
func Collect[T any](visited iter.Seq2[T, error]) (list []T, err error) {
	for one, err := range visited {
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

// SetDestination sets a destination's state as an operator does, and states that only a deliverer sets.
func SetDestination(ctx context.Context, rdb redis.UniversalClient, name string, s deliveries.DestinationState) error {
	switch s {
	case deliveries.DestinationState{}:
		return admin.NewClient(rdb).EnableDestination(ctx, name)
	case deliveries.DestinationState{Paused: true, Why: s.Why}:
		return admin.NewClient(rdb).PauseDestination(ctx, name, s.Why)
	}
	return deliveries.SetDestination(ctx, rdb, name, s)
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
