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
	Always   bool   `json:"always"`   // approve this and all similar calls
	As       string `json:"as"`       // the user of the token who decides
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
		return Fail(InvalidRequest, "question is %.100q; it must be an id, TURN.NUMBER.", body.Question)
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

// Chat returns a session in which a user of the token decides. as is that user.
func (g *Gateway) Chat(t Token, sessionKey, as string) *turnstile.Session {
	return g.deps.Client.Session(sessionKey).As(t.Sender(as))
}

// MayDecide fails unless the user as, or for "" the token itself, may decide. A token that may control
// decides for itself. Otherwise the token needs Send or Control, and as must be a sender of the running
// turn's messages.
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
