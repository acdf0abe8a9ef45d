package gateway

import (
	"context"
	"net/http"
	"strings"

	"turnstile"
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
	if _, number, ok := strings.Cut(body.Question, "."); !ok || number == "" {
		return Fail(InvalidRequest, "question is %.100q; it is the id of one, TURN.NUMBER.", body.Question)
	}
	if err := g.MayDecide(r.Work(), r.Token, r.Session, body.As); err != nil {
		return err
	}
	q, err := g.Chat(r.Token, r.Session, body.As).Decide(r.Work(), body.Question, d)
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, struct {
		Question string `json:"question"`
		Name     string `json:"name"`
		Decision string `json:"decision"`
	}{body.Question, q.Name, string(d)})
}

// Chat is a session in which a user of the token decides; as is the user below the token's name.
func (g *Gateway) Chat(t Token, sessionKey, as string) *turnstile.Session {
	return g.deps.Client.Session(sessionKey).As(t.Sender(as))
}

// MayDecide fails unless the token may control and speaks for itself, or may send or control and
// speaks for a sender of the running turn. as is the user below the token's name for whom it speaks: the
// user asks then, and what the token may do itself does not count. "" is the token itself.
func (g *Gateway) MayDecide(ctx context.Context, t Token, sessionKey, as string) error {
	who, err := sender(t, as)
	switch {
	case err != nil:
		return err
	case t.May(Control) && as == "", t.May(Send) && g.config.AnyoneDecides:
		return nil
	case !t.May(Send) && !t.May(Control):
		return Fail(Forbidden, "The token %s may neither send nor control.", t.Name)
	}
	turn, err := g.deps.Admin.Session(sessionKey).Turn(ctx)
	if err != nil {
		return err
	}
	for _, m := range turn.Messages {
		if m.Meta[senderMeta] == who {
			return nil
		}
	}
	if len(turn.Messages) == 0 {
		return Fail(NoQuestion, "No turn runs in the session %s.", sessionKey)
	}
	return Fail(Forbidden, "%s sent none of the running turn's messages; see TURNSTILE_GATEWAY_APPROVE.", who)
}
