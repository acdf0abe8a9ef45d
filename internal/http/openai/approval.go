package openai

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// An agent's open question is an item of OpenAI's, to approve the call of a tool on the server's side. It is no item
// of the turn's output: once it is decided, no response has it, except as an event of a stream.
const (
	approvalRequest  = "mcp_approval_request"
	approvalResponse = "mcp_approval_response"
)

// approval is a question of the turn that a response stands for.
type approval struct {
	place
	number int
}

const approvalPrefix = "mcpr_"

// id names the response and the question, which are the same in all runs of the turn.
func (q approval) id() string {
	return approvalPrefix + strings.TrimPrefix(q.place.id(), responsePrefix) + "_" + strconv.Itoa(q.number)
}

func parseApprovalID(id string) (q approval, ok bool) {
	encoded, ok := strings.CutPrefix(id, approvalPrefix)
	at := strings.LastIndexByte(encoded, '_')
	if !ok || at < 0 {
		return q, false
	}
	q.number, _ = strconv.Atoi(encoded[at+1:])
	q.place, ok = parseResponseID(responsePrefix + encoded[:at])
	return q, ok && q.number > 0 && q.id() == id
}

// approvalItem has no status, as at OpenAI.
type approvalItem struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	Server    string `json:"server_label"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Text      string `json:"text,omitempty"` // not OpenAI's
}

// item is the question as an item. Without arguments its text stands in their place: its reader must not miss it.
func (q approval) item(e session.Event) approvalItem {
	item := approvalItem{q.id(), approvalRequest, serverLabel, e.Name, "{}", e.Text}
	switch {
	case len(e.Input) > 0 && string(e.Input) != "null":
		item.Arguments = argumentsText(e.Input)
	case e.Text != "":
		item.Arguments = `{"text":` + string(quoted(e.Text)) + `}`
	}
	return item
}

// openQuestion is the open question of the turn that a message is in, nil if there is none.
func (a *API) openQuestion(ctx context.Context, p place) (*approvalItem, error) {
	info, err := a.client.Session(p.session).Info(ctx)
	if err != nil || info.Question == nil || !slices.Contains(info.Messages, p.message) {
		return nil, err
	}
	q := approval{p, info.Question.Number}
	asked, err := a.asked(ctx, q, info.Question.AskedAt)
	if err != nil || asked.Type == "" { // nobody is to decide without its arguments
		return nil, err
	}
	item := q.item(asked)
	return &item, nil
}

// questionWait bounds how long a question's event is waited for, which follows the question at once.
const questionWait = time.Second

// asked is the event of a question, which has the arguments that are not stored with it. It is zero if the session's
// stream does not have it any more.
func (a *API) asked(ctx context.Context, q approval, at time.Time) (session.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, questionWait)
	defer cancel()
	if !at.IsZero() {
		at = at.Add(-time.Second) // an event's time may be a little before the question's
	}
	for e, err := range a.client.Session(q.session).Events(ctx, turnstile.EventsSince(at)) {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return session.Event{}, nil
		case err != nil:
			return session.Event{}, err
		case e.Type == session.EventGap:
			return session.Event{}, nil
		case e.Type == session.EventQuestionAsked && e.CallID == strconv.Itoa(q.number):
			return e, nil
		}
	}
	return session.Event{}, nil
}

// decisionItem is the user's decision, in an input.
type decisionItem struct {
	Type     string `json:"type"`
	Role     string `json:"role"`
	Approval string `json:"approval_request_id"`
	Approve  *bool  `json:"approve"`
}

// decision returns the decision with which an input ends, nil if it ends with something else.
func (b responseBody) decision() (*decisionItem, error) {
	var items []decisionItem
	if !bytes.Contains(b.Input, []byte(approvalResponse)) || boundedjson.Unmarshal(b.Input, &items) != nil || len(items) == 0 {
		return nil, nil //nolint:nilerr // statements says what is wrong
	}
	switch last := len(items) - 1; {
	case items[last].Type != approvalResponse:
		return nil, nil
	case last > 0 && (items[last-1].Type == approvalResponse || items[last-1].Role == roleUser || strings.HasSuffix(items[last-1].Type, "_output")):
		return nil, refuse("input", "Send one %s alone: a turn has one open question, and what is said besides is a message of its own.", approvalResponse)
	case items[last].Approve == nil:
		return nil, refuse("input", "approve is true or false.")
	default:
		return &items[last], nil
	}
}

// decide decides a question as the routes approve and deny do, and responds with the response that asked it: of one turn
// there is one.
func (a *API) decide(w http.ResponseWriter, r *gateway.Request, body responseBody, item decisionItem) error {
	q, m, err := a.questioned(r, body, item.Approval)
	if err != nil {
		return err
	}
	if body.Stream {
		if err := r.HoldStream(); err != nil {
			return err
		}
	}
	d := session.Deny
	if *item.Approve {
		d = session.Allow
	}
	info, err := a.client.Session(q.session).Info(r.Work())
	if err == nil {
		err = a.decideOpen(r, q, info, d)
	}
	if err != nil && (!saysItRepeats(r) || !a.hasDecided(r, q, d, m.AcceptedAt)) {
		return err
	}
	m = light(m)
	switch {
	case body.Stream:
		return unrepeated(r, a.stream(w, r, q.place, m, position{after: -1, run: lastRun(m, info.Fence)}))
	case body.Background || m.Outcome != nil:
		return a.respond(w, r, q.place, m)
	}
	return a.wait(w, r, q.place, m)
}

// questioned returns the question that a decision names, and the message of its response. Who may send but not read
// follows only responses of its own.
func (a *API) questioned(r *gateway.Request, body responseBody, id string) (q approval, m turnstile.StoredMessage, err error) {
	unknown := refuse("input", "There is no %s %.200q.", approvalRequest, id)
	q, ok := parseApprovalID(id)
	switch {
	case !ok || !r.Token.Sees(q.session):
		return q, m, unknown
	case body.Previous != "" && body.Previous != q.place.id():
		return q, m, refuse("previous_response_id", "The question is of the response %s.", q.place.id())
	case body.Conversation != "" && string(body.Conversation) != q.session:
		return q, m, refuse("conversation", "The question is of the conversation %s.", q.session)
	}
	if err = r.See(q.session); err != nil {
		return q, m, err
	}
	m, err = a.client.Session(q.session).Message(r.Work(), q.message)
	switch {
	case errors.Is(err, session.ErrNotFound) || err == nil && !ours(m.Message):
		return q, m, unknown
	case err == nil && !r.Token.May(gateway.Read) && m.Meta[senderMeta] != r.Token.Name:
		err = gateway.Fail(gateway.Forbidden, "The token %s may not read this response: decide with POST /v1/sessions/%s/approve or deny.", r.Token.Name, q.session)
	}
	return q, m, err
}

// decideOpen decides a question if it is the open one of its response's turn.
func (a *API) decideOpen(r *gateway.Request, q approval, info session.Info, d session.Decision) error {
	switch {
	case !slices.Contains(info.Messages, q.message):
		return gateway.Fail(gateway.NoQuestion, "The turn that asked it has ended.")
	case info.WaitsFor != "":
		return gateway.Fail(gateway.NoQuestion, "The turn waits for the value %.100q, which no approval gives: send it with POST /v1/sessions/%s/answers/KEY.", info.WaitsFor, q.session)
	case info.Question == nil:
		return gateway.Fail(gateway.QuestionDecided, "The question was decided or withdrawn.")
	case info.Question.Number != q.number:
		return gateway.Fail(gateway.OtherQuestion, "The question was decided or withdrawn, and another one is open: %s.", approval{q.place, info.Question.Number}.id())
	}
	_, err := r.Decide("", info.Question.ID(), d)
	return err
}

// hasDecided reports whether the token has decided a question so: then a client repeats its request.
func (a *API) hasDecided(r *gateway.Request, q approval, d session.Decision, since time.Time) bool {
	list, err := a.admin.Session(q.session).Audit(r.Work())
	return err == nil && slices.ContainsFunc(list, func(e admin.AuditEntry) bool {
		return e.By == r.Token.Name && e.Did == string(d) && !e.At.Before(since) && strings.HasSuffix(e.What, "."+strconv.Itoa(q.number))
	})
}
