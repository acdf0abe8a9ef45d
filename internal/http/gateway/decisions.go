package gateway

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"turnstile"
	"turnstile/internal/chat/slash"
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
	if turn, number, _ := strings.Cut(body.Question, "."); turn == "" || !isNumber(number) {
		return Fail(InvalidRequest, "question is %.100q; it must be an id, TURN.NUMBER.", body.Question)
	}
	q, err := r.Decide(body.As, body.Question, d)
	if err != nil {
		return err
	}
	return Respond(w, http.StatusOK, struct {
		Question string `json:"question"`
		Name     string `json:"name"`
		Decision string `json:"decision"`
	}{body.Question, q.Name, string(d)})
}

func isNumber(text string) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n > 0
}

// Chat returns a session that a user of the token changes. as is that user, "" the token itself.
func (g *Gateway) Chat(t Token, sessionKey, as string) *turnstile.Session {
	return g.deps.Client.Session(sessionKey).As(t.Sender(as))
}

// Decide decides the question with that ID for the user as, or for "" the token itself, if mayDecide allows it.
func (g *Gateway) Decide(ctx context.Context, t Token, sessionKey, as, question string, d session.Decision) (session.Question, error) {
	ctx = slash.WithCheck(ctx, func(ctx context.Context, _ int) (session.Question, error) {
		return g.mayDecide(ctx, t, sessionKey, as, func(open session.Question) bool { return question == open.ID() })
	})
	return g.Chat(t, sessionKey, as).Decide(ctx, question, d)
}

// Decide is the gateway's, for the request's token and session, and is in the audit at once: a wait may follow.
func (r *Request) Decide(as, question string, d session.Decision) (session.Question, error) {
	q, err := r.gateway.Decide(r.Work(), r.Token, r.Session, as, question, d)
	if err == nil {
		did := "POST /v1/sessions/{s}/deny"
		if d.Allowed() {
			did = "POST /v1/sessions/{s}/approve"
		}
		r.gateway.Audit(r.Request, r.Token, did, r.Session, as)
	}
	return q, err
}

// MayDecide fails unless the token may decide the open question.
func (g *Gateway) MayDecide(ctx context.Context, t Token, sessionKey string) error {
	_, err := g.mayDecide(ctx, t, sessionKey, "", func(session.Question) bool { return true })
	return err
}

// mayDecide fails unless the user as, or for "" the token itself, may decide the open question, and it is the
// one to decide. It returns the question that it has checked, the zero one if none is open: then a question
// that is asked meanwhile must not be decided.
//
// If the question has approvers, they decide: also a token that may control must be one of them. Else a
// token that may control decides for itself. All others need Send or Control, and as must be a sender of
// the messages for which the turn began.
func (g *Gateway) mayDecide(ctx context.Context, t Token, sessionKey, as string, is func(session.Question) bool) (q session.Question, err error) {
	who, err := sender(t, as)
	switch {
	case err != nil:
		return q, err
	case !t.May(Send) && !t.May(Control):
		return q, Fail(Forbidden, "The token %s may neither send nor control.", t.Name)
	}
	info, err := g.deps.Client.Session(sessionKey).Info(ctx)
	switch {
	case err != nil:
		return q, err
	case info.Question != nil && !is(*info.Question):
		return *info.Question, session.ErrOtherQuestion // a question that comes later has approvers of its own
	case info.Question != nil:
		q = *info.Question
	}
	if q.Turn = info.Turn; len(q.Approvers) == 0 && (t.May(Control) && as == "" || t.May(Send) && g.config.AnyoneDecides) {
		return q, nil
	}
	switch {
	case info.Question == nil && info.Turn == "":
		return q, Fail(NoQuestion, "No turn runs in the session %s.", sessionKey)
	case info.Question == nil:
		return q, nil // nothing can be decided
	case len(q.Approvers) > 0 && !q.MayDecide(who):
		return q, Fail(Forbidden, "%s may not decide: the question is for %s.", who, strings.Join(q.Approvers, ", "))
	case len(q.Approvers) == 0 && !slices.Contains(q.Senders, who):
		return q, Fail(Forbidden, "%s sent none of the messages for which the turn began; see TURNSTILE_GATEWAY_APPROVE.", who)
	}
	return q, nil
}
