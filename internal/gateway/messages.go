package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"turnstile"
	"turnstile/internal/slash"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// messageBody is the body of a new message: a message's wire payload, and what the gateway does
// with it.
type messageBody struct {
	session.Message
	V int `json:"v"` // of the wire payload, 1

	Delay    session.Duration `json:"delay"`    // before the message joins the line
	As       string           `json:"as"`       // the user below the token's name who says it
	Commands bool             `json:"commands"` // slash commands are carried out

	ReplyTo string          `json:"reply_to"` // the destination of the outcome
	Context json.RawMessage `json:"context"`  // repeated by its deliveries

	DeliverBy string `json:"deliver_by"` // a time, or a duration: then the outcome is not delivered any more
}

// Message is where a message is, and how it ended.
type Message struct {
	Session string           `json:"session"`
	ID      string           `json:"id"`
	State   string           `json:"state"`
	Outcome *session.Outcome `json:"outcome,omitempty"` // null until the message has ended

	Deliveries []admin.Delivery `json:"deliveries,omitempty"` // of the message, that are not delivered
}

// senderMeta is the entry of a message's meta that has its sender.
const senderMeta = "sender"

// postMessage stores a message in a session.
func (g *Gateway) postMessage(w http.ResponseWriter, r *Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	return g.post(w, r, r.Session, key)
}

// postNew stores a message in a session that is new. With an idempotency key the session's key is
// made of it, so a repetition reaches the same session.
func (g *Gateway) postNew(w http.ResponseWriter, r *Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	name := turnstile.NewMessageID()
	if key != "" {
		name = "k" + hashed(r.Token.Name + "\n" + key)[:25]
	}
	if name = r.Token.prefix + name; !r.Token.Sees(name) {
		return Fail(Forbidden, `The token %s may not make sessions: its entry has no "new".`, r.Token.Name)
	}
	return g.post(w, r, name, key)
}

func (g *Gateway) post(w http.ResponseWriter, r *Request, sessionKey, id string) error {
	if err := r.CheckQuery(); err != nil {
		return err
	}
	var body messageBody
	if err := r.Decode(w, &body, true); err != nil {
		return err
	}
	m, opts, err := body.message(r.Token)
	if err != nil {
		return err
	}
	to, err := r.outcomeTo(sessionKey, body)
	if err != nil {
		return err
	}
	opts = append(opts, to...)
	m.ID, m.TraceParent = id, r.TraceParent()
	ctx := For(r.Work(), r.Token, body.As)
	if body.As != "" {
		ctx = slash.WithCheck(ctx, g.mayDecideAs(r.Token, sessionKey, body.As))
	}
	receipt, err := g.deps.Client.Submit(ctx, sessionKey, m, opts...)
	if err == nil {
		err = receipt.Err()
	}
	if err != nil {
		return err
	}
	if receipt.Status == turnstile.Answered {
		return Respond(w, http.StatusOK, receipt)
	}
	w.Header().Set("Location", "/v1/sessions/"+url.PathEscape(sessionKey)+"/messages/"+url.PathEscape(receipt.ID))
	outcome, ended, err := g.outcome(w, r, receipt)
	switch {
	case errors.Is(err, turnstile.ErrUnknownMessage):
		return because(err, Fail(ResultExpired, "The message %s was accepted before.", receipt.ID))
	case err != nil:
		return err
	case ended:
		return Respond(w, http.StatusOK, r.Token.told(outcome))
	}
	return Respond(w, http.StatusAccepted, receipt)
}

// message returns what Submit is called with.
func (b messageBody) message(t Token) (session.Message, []turnstile.SubmitOption, error) {
	m := Worded(b.Message)
	if b.V != 0 && b.V != 1 {
		return m, nil, Fail(InvalidRequest, "v is %d; this gateway knows version 1.", b.V)
	}
	if _, ok := m.Meta[senderMeta]; ok {
		return m, nil, Fail(InvalidRequest, `meta.sender is the gateway's; name the user with "as".`)
	}
	sender, err := sender(t, b.As)
	if err != nil {
		return m, nil, err
	}
	meta := map[string]string{senderMeta: sender}
	for name, value := range m.Meta {
		meta[name] = value
	}
	m.Meta = meta
	opts := []turnstile.SubmitOption{turnstile.Delay(time.Duration(b.Delay))}
	if !b.Commands {
		return m, append(opts, turnstile.Literal()), nil
	}
	if !t.May(Control) {
		return m, nil, Fail(Forbidden, `The token %s may not control, which "commands" needs.`, t.Name)
	}
	if cmd, args, ok := slash.Parse(m.Text); ok && cmd.Shows(args) && !t.May(Read) {
		return m, nil, Fail(Forbidden, "The token %s may not read, which %s needs.", t.Name, cmd.Name)
	}
	return m, opts, nil
}

// mayDecideAs returns the check of a command that decides a question for a user of the token: the user
// must be one of the running turn's. A token that may control may everything else for its users.
func (g *Gateway) mayDecideAs(t Token, sessionKey, as string) func(context.Context) (turn string, err error) {
	return func(ctx context.Context) (string, error) {
		info, err := g.deps.Admin.Session(ctx, sessionKey)
		if err != nil {
			return "", err
		}
		return info.Turn, g.MayDecide(ctx, t, info, as)
	}
}

// sender is the sender of a request that speaks for a user of the token.
func sender(t Token, user string) (string, error) {
	if user == "" {
		return t.Name, nil
	}
	if err := session.ValidateID(user); err != nil {
		return "", Fail(InvalidRequest, `"as" is %.100q: use 1 to 128 letters, digits and ._:@+=~- only, the first a letter or digit.`, user)
	}
	return t.Sender(user), nil
}

// outcome returns the outcome of a message that was accepted, if it has ended or ends while the
// request may wait.
func (g *Gateway) outcome(w http.ResponseWriter, r *Request, receipt turnstile.Receipt) (session.Outcome, bool, error) {
	if receipt.Status == turnstile.Duplicate {
		if o, ended, err := g.deps.Client.Result(r.Work(), receipt.Session, receipt.ID); ended || err != nil {
			return o, ended, err
		}
	}
	patience := preferredWait(r.Header)
	if patience == 0 {
		return session.Outcome{}, false, nil
	}
	applied(w.Header(), patience)
	return g.wait(r, receipt.Session, receipt.ID, patience)
}

// wait waits for a message's end: for patience at most, and while the client is there, its token is
// valid, and the gateway does not drain.
func (g *Gateway) wait(r *Request, sessionKey, id string, patience time.Duration) (o session.Outcome, ended bool, err error) {
	waiting, over := r.Waiting()
	defer over()
	ctx, cancel := context.WithTimeout(waiting, patience)
	defer cancel()
	o, err = g.deps.Client.Wait(ctx, sessionKey, id)
	if cause := context.Cause(waiting); errors.Is(cause, errRevoked) || errors.Is(cause, errNarrowed) {
		return session.Outcome{}, false, Interrupted(cause)
	}
	if err != nil && ctx.Err() != nil {
		return session.Outcome{}, false, nil
	}
	return o, err == nil, err
}

// getMessage returns the state of a message, with ?wait once it has ended.
func (g *Gateway) getMessage(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("wait"); err != nil {
		return err
	}
	patience, err := r.Wait()
	if err != nil {
		return err
	}
	m := Message{Session: r.Session, ID: r.PathValue("id")}
	if err := session.ValidateID(m.ID); err != nil {
		return err
	}
	state, o, ended, err := g.deps.Client.MessageState(r.Work(), m.Session, m.ID)
	if err == nil && !ended && patience > 0 {
		applied(w.Header(), patience)
		if o, ended, err = g.wait(r, m.Session, m.ID, patience); err == nil {
			state, o, ended, err = g.stateAfter(r, m, state, o, ended)
		}
	}
	if err != nil {
		return err
	}
	if m.State = state; ended {
		m.Outcome = r.Token.told(o)
	}
	if m.Deliveries, err = g.deliveriesOf(r, m.ID); err != nil {
		return err
	}
	return Respond(w, http.StatusOK, m)
}

// stateAfter returns a message's state after a wait. The wait knows the outcome of a message whose
// result is not kept, so it counts.
func (g *Gateway) stateAfter(r *Request, m Message, before string, waited session.Outcome, over bool) (string, session.Outcome, bool, error) {
	ctx, cancel := r.More()
	defer cancel()
	state, o, ended, err := g.deps.Client.MessageState(ctx, m.Session, m.ID)
	switch {
	case !over:
		return state, o, ended, err
	case err != nil || !ended:
		state = stateOf(waited)
	}
	return state, waited, true, nil
}

// stateOf is the state of a message with this outcome.
func stateOf(o session.Outcome) string {
	if o.Status == session.StatusDone || o.Status == session.StatusInterrupted {
		return "completed"
	}
	return "archived"
}

// deleteMessage ends one message: it takes it out of the line, or with ?running=true ends its turn.
func (g *Gateway) deleteMessage(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("running"); err != nil {
		return err
	}
	running := r.URL.Query().Get("running")
	if running != "" && running != "true" && running != "false" {
		return Fail(InvalidRequest, "running is %.100q; it is true or false.", running)
	}
	m := Message{Session: r.Session, ID: r.PathValue("id")}
	if err := session.ValidateID(m.ID); err != nil {
		return err
	}
	o, ended, err := g.deps.Client.Cancel(r.Work(), m.Session, m.ID, running == "true")
	switch {
	case err != nil:
		return err
	case !ended:
		m.State = "running"
		return Respond(w, http.StatusAccepted, m)
	}
	m.State, m.Outcome = stateOf(o), r.Token.ended(o)
	return Respond(w, http.StatusOK, m)
}
