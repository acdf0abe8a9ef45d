package gateway

import (
	"net/http"

	"turnstile"
	"turnstile/internal/outbox"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// outcomeTo sets where the outcome of a message goes, and until when.
func (r *Request) outcomeTo(sessionKey string, b messageBody, m *turnstile.Message) error {
	if err := r.gateway.checkReplyTo(sessionKey, b.ReplyTo); err != nil {
		return err
	}
	route, err := wire.Route{}.DeliverBy(b.DeliverBy)
	m.ReplyTo, m.ReplyContext, m.ReplyBy, m.ReplyWithin = b.ReplyTo, b.Context, route.By, route.Within
	return err
}

// outcomeRoutes returns the routes that gateways share. known is false if no gateway has a file of
// destinations.
func (g *Gateway) outcomeRoutes() (all outbox.Routes, known bool) {
	if file := g.deps.Destinations; file != nil && file.Known() {
		return file.Routes(), true
	}
	return nil, false
}

// checkReplyTo fails if a gateway has a file of destinations, and this one is not among those that gateways share or does
// not admit the session. A token does not learn which of the two it is, since other destinations may belong to other
// people.
func (g *Gateway) checkReplyTo(sessionKey, name string) error {
	if name == "" || name == session.NoReply {
		return nil
	}
	if err := wire.ValidateDestination(name); err != nil {
		return err
	}
	all, known := g.outcomeRoutes()
	if !known {
		return nil
	}
	if to := all.Named(name); to == nil || !to.Admits(sessionKey) {
		return Fail(InvalidRequest, `The destination %s does not exist for the session %s: see "sessions" and "from" of the gateways' file of destinations.`, name, sessionKey)
	}
	return nil
}

// replyTo is where a session's outcomes go.
type replyTo struct {
	ReplyTo string `json:"reply_to"` // empty: where the file of destinations says
}

// postReplyTo sets the destination for those of a session's messages that name none.
func (g *Gateway) postReplyTo(w http.ResponseWriter, r *Request) error {
	var body replyTo
	if err := r.Decode(w, &body, true); err != nil {
		return err
	}
	if body.ReplyTo == session.NoReply {
		return Fail(InvalidRequest, `reply_to "-" is valid only on a message; send an empty string to clear the session's.`)
	}
	if err := g.checkReplyTo(r.Session, body.ReplyTo); err != nil {
		return err
	}
	if err := r.chat().SetReplyTo(r.Work(), body.ReplyTo); err != nil {
		return err
	}
	return Respond(w, http.StatusOK, body)
}
