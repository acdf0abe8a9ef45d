package gateway

import (
	"encoding/json"
	"net/http"

	"turnstile"
	"turnstile/internal/outbox"
	"turnstile/pkg/session"
)

// outcomeTo returns where the outcome of a message goes.
func (r *Request) outcomeTo(sessionKey, to string, context json.RawMessage) ([]turnstile.SubmitOption, error) {
	if err := r.gateway.checkDestination(to, InvalidRequest); err != nil {
		return nil, err
	}
	var opts []turnstile.SubmitOption
	if to != "" || len(context) > 0 {
		opts = append(opts, turnstile.ReplyTo(session.Route{To: to, Context: context}))
	}
	return append(opts, r.DefaultReplyTo(sessionKey)), nil
}

// destinations are those of the file, nil without one.
func (g *Gateway) destinations() *outbox.Destinations {
	if g.deps.Destinations == nil {
		return nil
	}
	return g.deps.Destinations.Current()
}

// checkDestination fails with the code if there is a file of destinations, and this one is not in it.
func (g *Gateway) checkDestination(name string, code Code) error {
	if name == "" || name == session.NoReply {
		return nil
	}
	if err := session.ValidateDestination(name); err != nil {
		return err
	}
	if known := g.destinations(); known != nil && known.Named(name) == nil {
		return Fail(code, "The destination %s is not in the gateway's file of destinations.", name)
	}
	return nil
}

// replyTo is where a session's outcomes go.
type replyTo struct {
	ReplyTo string `json:"reply_to"` // empty: where the file of destinations says
}

// postReplyTo sets where the outcomes of a session's messages go that name no destination.
func (g *Gateway) postReplyTo(w http.ResponseWriter, r *Request) error {
	var body replyTo
	if err := r.Decode(w, &body, true); err != nil {
		return err
	}
	if body.ReplyTo == session.NoReply {
		return Fail(InvalidRequest, `reply_to is "-", which is for messages only; an empty one removes the session's.`)
	}
	if err := g.checkDestination(body.ReplyTo, InvalidRequest); err != nil {
		return err
	}
	if err := g.deps.Client.SetReplyTo(r.Work(), r.Session, body.ReplyTo); err != nil {
		return err
	}
	return Respond(w, http.StatusOK, body)
}
