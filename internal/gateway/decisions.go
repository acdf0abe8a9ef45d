package gateway

import (
	"context"
	"net/http"

	"turnstile/internal/slash"
	"turnstile/pkg/session"
)

// decision is the body of approve and deny.
type decision struct {
	Question string `json:"question"` // TURN.NUMBER
	Always   bool   `json:"always"`   // approve this and everything like it
	As       string `json:"as"`       // the user below the token's name who decides
}

func (g *Gateway) postApprove(w http.ResponseWriter, r *Request) error {
	return g.decide(w, r, session.Allow)
}

func (g *Gateway) postDeny(w http.ResponseWriter, r *Request) error {
	return g.decide(w, r, session.Deny)
}

// decide decides the question that the body names, if it is the open one.
func (g *Gateway) decide(w http.ResponseWriter, r *Request, d session.Decision) error {
	var body decision
	if err := r.Decode(w, &body, true); err != nil {
		return err
	}
	switch {
	case body.Always && d == session.Deny:
		return Fail(InvalidRequest, `"always" is for approve.`)
	case body.Always:
		d = session.Always
	}
	info, err := g.deps.Admin.Session(r.Work(), r.Session)
	if err != nil {
		return err
	}
	if err := g.MayDecide(r.Work(), r.Token, info, body.As); err != nil {
		return err
	}
	q, err := g.deps.Client.DecideQuestion(For(r.Work(), r.Token, body.As), r.Session, body.Question, d)
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, struct {
		Question string           `json:"question"`
		Name     string           `json:"name"`
		Decision session.Decision `json:"decision"`
	}{body.Question, q.Name, d})
}

// For names the user for whom a token's request decides. The decision's event has the name.
func For(ctx context.Context, t Token, as string) context.Context {
	return slash.WithUser(ctx, t.Sender(as))
}

// MayDecide fails unless the token may control and speaks for itself, or may send or control and
// speaks for a sender of the running turn. as is the user below the token's name for whom it speaks: the
// user asks then, and what the token may do itself does not count. "" is the token itself.
func (g *Gateway) MayDecide(ctx context.Context, t Token, info session.Info, as string) error {
	who, err := sender(t, as)
	switch {
	case err != nil:
		return err
	case t.May(Control) && as == "", t.May(Send) && g.config.AnyoneDecides:
		return nil
	case !t.May(Send) && !t.May(Control):
		return Fail(Forbidden, "The token %s may neither send nor control.", t.Name)
	}
	messages, err := g.deps.Admin.TurnMessages(ctx, info)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.Meta[senderMeta] == who {
			return nil
		}
	}
	if len(messages) == 0 {
		return Fail(NoQuestion, "No turn runs in the session %s.", info.Session)
	}
	return Fail(Forbidden, "%s sent none of the running turn's messages; see TURNSTILE_GATEWAY_APPROVE.", who)
}
