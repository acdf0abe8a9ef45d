package turnstile

import "turnstile/pkg/admin"

// operator is admin.Client under another name: embedded as Client, it would collide with
// turnstile.Client.
type operator = admin.Client

// operations are the methods that slash commands may call: those of both clients.
type operations struct {
	*Client
	*operator
}

func (c *Client) operations() operations { return operations{c, c.admin} }
