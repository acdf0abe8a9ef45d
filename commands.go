package turnstile

import (
	"context"
	"fmt"

	"turnstile/internal/rediskey"
	"turnstile/pkg/admin"
)

// operator is admin.Client under another name: embedded as Client, it would collide with
// turnstile.Client.
type operator = admin.Client

// operations are what slash commands may call: the methods of both clients, and Paused.
type operations struct {
	*Client
	*operator
}

func (c *Client) operations() operations { return operations{c, c.admin} }

// Paused reports whether an operator has paused a session, so that it is not claimed.
func (o operations) Paused(ctx context.Context, sessionKey string) (bool, error) {
	n, err := o.Client.rdb.Exists(ctx, rediskey.For(sessionKey).Paused()).Result()
	if err != nil {
		return false, fmt.Errorf("read whether session %s is paused: %w", sessionKey, err)
	}
	return n > 0, nil
}
