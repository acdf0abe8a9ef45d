package turnstile

import "turnstile/pkg/admin"

// operator is admin.Client by a name that does not hide Client in operations.
type operator = admin.Client

// operations are what slash commands may call: the methods of both clients.
type operations struct {
	*Client
	*operator
}

func (c *Client) operations() operations { return operations{c, c.admin} }
