package turnstile

import (
	"context"
	"fmt"

	"turnstile/internal/slash"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// operator is the Admin of a client, whose name would hide the Client's own in operations.
type operator = admin.Client

// operations are what slash commands can do: all that the two clients can.
type operations struct {
	*Client
	*operator
}

func (c *Client) operations() operations { return operations{c, c.admin} }

// Command carries out a slash command and returns what the user is to read. What is wrong
// with its arguments is told there too, and changes nothing. /steer is a message: Submit
// it.
func (c *Client) Command(ctx context.Context, sessionKey, name, args string) (string, error) {
	if err := session.ValidateKey(sessionKey); err != nil {
		return "", err
	}
	cmd, ok := slash.Named(name)
	if !ok || !cmd.MayRun() {
		return "", fmt.Errorf("%w command %q: /help lists them", session.ErrInvalid, name)
	}
	reply, _, err := cmd.Run(ctx, c.operations(), sessionKey, args)
	return reply, err
}
