// Package openai serves OpenAI's API on top of a gateway: Responses, Conversations, Chat Completions and Models.
// docs/openai-api.md says what it supports.
//
// A response is a message of a session, and its ID names both, so nothing else is stored. Every
// gateway reads any response, with the same events under the same numbers.
package openai

import (
	"time"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/store"
	"turnstile/pkg/admin"
)

// API has the routes. Make one with New.
type API struct {
	client *turnstile.Client
	admin  *admin.Client
	kept   *store.Store // the gateway's
	bodies Bodies

	messageBytes int // of the largest message in JSON

	oneShots   oneShots
	parkedWait time.Duration
	live       liveAgents
}

// New returns the routes for the sessions of a client.
func New(client *turnstile.Client, operator *admin.Client, bodies Bodies) *API {
	return &API{client: client, admin: operator, bodies: bodies, oneShots: defaultOneShots, parkedWait: parkedWait}
}

// Mount adds the routes to a gateway, which erases temporary sessions until it drains.
func (a *API) Mount(g *gateway.Gateway) {
	a.kept, a.messageBytes = g.Store(), g.MessageBytes()
	for _, r := range []gateway.Route{
		{Pattern: "POST /v1/responses", May: gateway.Send, History: true, Serve: a.postResponse},
		{Pattern: "GET /v1/responses/{id}", May: gateway.Read, Serve: a.getResponse},
		{Pattern: "DELETE /v1/responses/{id}", May: gateway.Control, Serve: a.deleteResponse},
		{Pattern: "GET /v1/responses/{id}/input_items", May: gateway.Read, Reads: true, Serve: a.getInputItems},
		{Pattern: "POST /v1/responses/{id}/cancel", May: gateway.Control, Within: cancelTimeout, Serve: a.postCancel},
		{Pattern: "POST /v1/chat/completions", May: gateway.Send, History: true, Serve: a.postChat},
		{Pattern: "POST /v1/conversations", May: gateway.Send, Serve: a.postConversation},
		{Pattern: "GET /v1/conversations/{s}", May: gateway.Read, Serve: a.getConversation},
		{Pattern: "POST /v1/conversations/{s}", May: gateway.Control, Serve: refusing("metadata", noMetadata)},
		{Pattern: "DELETE /v1/conversations/{s}", May: gateway.Operate, Serve: a.deleteConversation},
		{Pattern: "GET /v1/conversations/{s}/items", May: gateway.Read, Reads: true, Serve: a.getItems},
		{Pattern: "POST /v1/conversations/{s}/items", May: gateway.Send, Serve: refusing("items", noItems)},
		{Pattern: "GET /v1/conversations/{s}/items/{id}", May: gateway.Read, Reads: true, Serve: a.getItem},
		{Pattern: "DELETE /v1/conversations/{s}/items/{id}", May: gateway.Control, Serve: refusing("item_id", noDelete)},
		{Pattern: "GET /v1/models", Serve: a.getModels},
		{Pattern: "GET /v1/models/{id}", Serve: a.getModel},
	} {
		r.Fail = fail
		g.Handle(r)
	}
	g.FailForeign(fail)
	g.WhileServing(a.eraseOneShots)
}

// cancelTimeout is how long a cancel waits for the end of the turn.
const cancelTimeout = 30 * time.Second
