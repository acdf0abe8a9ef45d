package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/chat/slash"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// messageBody is the body of a new message: a message's wire payload, and options for the gateway.
type messageBody struct {
	wire.Message
	V int `json:"v"` // of the wire payload, 1

	Delay    wire.Duration `json:"delay"`    // before the message joins the queue
	As       string        `json:"as"`       // the user of the token who says it
	Name     string        `json:"name"`     // what people see for the sender
	Commands bool          `json:"commands"` // slash commands are carried out
	Agent    string        `json:"agent"`    // that the session gets, if it has none yet

	ReplyTo string          `json:"reply_to"` // the destination of the outcome
	Context json.RawMessage `json:"context"`  // repeated by its deliveries

	DeliverBy string `json:"deliver_by"` // a time, or a duration, after which the outcome is not delivered
}

// Message is the state of a message, and how it ended.
type Message struct {
	Session string               `json:"session"`
	ID      string               `json:"id"`
	State   session.MessageState `json:"state"`
	Outcome *session.Outcome     `json:"outcome,omitempty"` // null until the message ends
	Text    string               `json:"text,omitempty"`    // if the query asks for it

	Deliveries []Delivery `json:"deliveries,omitempty"` // of the message, undelivered
}

// Keys of the sender in a message's meta.
const (
	senderMeta = "sender"
	nameMeta   = "sender_name"
)

// mostName is how many characters a sender's name may have.
const mostName = 80

// postMessage stores a message in a session.
func (g *Gateway) postMessage(w http.ResponseWriter, r *Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	return g.post(w, r, r.Session, key)
}

// postNew stores a message in a new session. An idempotency key determines the session's key, so a
// repetition reaches the same session.
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
	var body messageBody
	if err := r.Decode(w, &body, true); err != nil {
		return err
	}
	m, err := body.message(r.Token)
	if err != nil {
		return err
	}
	if err := r.outcomeTo(sessionKey, body, &m); err != nil {
		return err
	}
	m.ID, m.TraceParent = id, r.TraceParent()
	told, err := g.store(r, sessionKey, body, m)
	if err != nil {
		return err
	}
	if told.Status == receipt.Answered {
		return Respond(w, http.StatusOK, told)
	}
	w.Header().Set("Location", "/v1/sessions/"+url.PathEscape(sessionKey)+"/messages/"+url.PathEscape(told.ID))
	outcome, ended, err := g.outcome(w, r, told)
	switch {
	case errors.Is(err, session.ErrNotFound) && (told.Status == receipt.Duplicate || errors.Is(err, session.ErrExpired)):
		return because(err, Fail(ResultExpired, "The message %s was accepted before.", told.ID))
	case err != nil:
		return Lost(err, told.ID)
	case ended:
		return Respond(w, http.StatusOK, r.Token.told(outcome))
	}
	return Respond(w, http.StatusAccepted, told)
}

// Lost converts the error of a wait for a message that this request has stored, if Redis has lost it meanwhile.
func Lost(err error, id string) error {
	if errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrExpired) {
		return because(err, Fail(MessageLost, "Redis stored the message %s and does not know it any more. Send it again.", id))
	}
	return err
}

// store sends a message, or carries out its command if the body allows it.
func (g *Gateway) store(r *Request, sessionKey string, body messageBody, m turnstile.Message) (receipt.Receipt, error) {
	chat := g.Chat(r.Token, sessionKey, body.As)
	if !body.Commands {
		sent, err := chat.Send(r.Work(), m)
		return receipt.Of(sent), err
	}
	ctx := slash.WithCheck(r.Work(), g.mayDecideAs(r.Token, sessionKey, body.As))
	told, err := receipt.Input(ctx, chat, m)
	if cmd, args, ok := slash.Parse(m.Text); ok && !cmd.Reads(args) && !cmd.IsMessage(args) && !told.Invalid {
		r.did, r.by = cmd.Name, body.As
	}
	return told, cmp.Or(err, told.Err)
}

// message returns the message to send.
func (b messageBody) message(t Token) (turnstile.Message, error) {
	m := Worded(turnstile.Message{
		Text: b.Text, Mode: b.Mode, Meta: b.Meta, Attachments: b.Attachments, ExpiresIn: time.Duration(b.ExpiresIn), Delay: time.Duration(b.Delay), Agent: b.Agent,
	})
	if b.Request != nil {
		return m, unknownFields("request") // clients bring it by OpenAI's API, with the right to
	}
	if b.V != 0 && b.V != 1 {
		return m, Fail(InvalidRequest, "v is %d; this gateway knows version 1.", b.V)
	}
	if _, ok := m.Meta[senderMeta]; ok {
		return m, Fail(InvalidRequest, `meta.sender is the gateway's; name the user with "as".`)
	}
	if _, ok := m.Meta[nameMeta]; ok {
		return m, Fail(InvalidRequest, `meta.sender_name is the gateway's; give the name in "name".`)
	}
	if err := t.mayName(b.Agent); err != nil {
		return m, err
	}
	sender, err := sender(t, b.As)
	if err != nil {
		return m, err
	}
	meta := map[string]string{senderMeta: sender}
	if b.Name != "" {
		if meta[nameMeta] = b.Name; !printableName(b.Name) {
			return m, Fail(InvalidRequest, `"name" is %.100q: use at most %d printable characters in one line, and no controls of text direction.`, b.Name, mostName)
		}
	}
	for name, value := range m.Meta {
		meta[name] = value
	}
	m.Meta = meta
	if !b.Commands {
		return m, nil
	}
	if !t.May(Control) {
		return m, Fail(Forbidden, `The token %s may not control, which "commands" needs.`, t.Name)
	}
	cmd, args, ok := slash.Parse(m.Text)
	switch {
	case ok && cmd.Shows(args) && !t.May(Read):
		return m, Fail(Forbidden, "The token %s may not read, which %s needs.", t.Name, cmd.Name)
	case ok && cmd.NamesAgent(args):
		return m, t.mayName(args)
	}
	return m, nil
}

// mayDecideAs returns the check of a command that decides a question for a user of the token, "" for the
// token itself. All other commands a token that may control may use for its users.
func (g *Gateway) mayDecideAs(t Token, sessionKey, as string) func(context.Context, int) (session.Question, error) {
	return func(ctx context.Context, number int) (session.Question, error) {
		return g.mayDecide(ctx, t, sessionKey, as, func(open session.Question) bool { return number == 0 || number == open.Number })
	}
}

func printableName(name string) bool {
	return utf8.RuneCountInString(name) <= mostName && strings.TrimSpace(name) != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsPrint(r) && !unicode.Is(unicode.Join_Control, r) // joiners are part of Persian names and of emoji
	})
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

// outcome returns the outcome of an accepted message, if it ends before the request's wait is over.
func (g *Gateway) outcome(w http.ResponseWriter, r *Request, told receipt.Receipt) (session.Outcome, bool, error) {
	if told.Status == receipt.Duplicate {
		switch m, err := g.deps.Client.Session(told.Session).Message(r.Work(), told.ID); {
		case err != nil:
			return session.Outcome{}, false, err
		case m.Outcome != nil:
			return *m.Outcome, true, nil
		}
	}
	patience := preferredWait(r.Header)
	if patience == 0 {
		return session.Outcome{}, false, nil
	}
	applied(w.Header(), patience)
	return g.wait(r, told.Session, told.ID, patience)
}

// wait waits for a message's end: at most for patience, and while the client is connected, its
// token is valid, and the gateway does not drain.
func (g *Gateway) wait(r *Request, sessionKey, id string, patience time.Duration) (o session.Outcome, ended bool, err error) {
	waiting, over := r.Waiting()
	defer over()
	ctx, cancel := context.WithTimeout(waiting, patience)
	defer cancel()
	o, err = g.deps.Client.Session(sessionKey).Wait(ctx, id)
	if cause := context.Cause(waiting); errors.Is(cause, errRevoked) || errors.Is(cause, errNarrowed) {
		return session.Outcome{}, false, Interrupted(cause)
	}
	if err != nil && ctx.Err() != nil {
		return session.Outcome{}, false, nil
	}
	return o, err == nil, err
}

// getMessage returns the state of a message. With ?wait it first waits for the message's end.
func (g *Gateway) getMessage(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("wait", "text"); err != nil {
		return err
	}
	patience, err := r.Wait()
	if err != nil {
		return err
	}
	texts, err := r.Bool("text")
	if err != nil {
		return err
	}
	m := Message{Session: r.Session, ID: r.PathValue("id")}
	if err := session.ValidateID(m.ID); err != nil {
		return err
	}
	stored, err := g.deps.Client.Session(m.Session).Message(r.Work(), m.ID)
	if err == nil && stored.Outcome == nil && patience > 0 {
		applied(w.Header(), patience)
		var o session.Outcome
		var ended bool
		if o, ended, err = g.wait(r, m.Session, m.ID, patience); err == nil {
			stored, err = g.storedAfter(r, m, o, ended)
		}
	}
	if err != nil {
		return err
	}
	if m.State = stored.State; stored.Outcome != nil {
		m.Outcome = r.Token.told(*stored.Outcome)
	}
	if texts {
		m.Text = stored.Text
	}
	if m.Deliveries, err = g.deliveriesOf(r, m.ID); err != nil {
		return err
	}
	return Respond(w, http.StatusOK, m)
}

// storedAfter returns a message after a wait. The outcome of the wait takes precedence, because a
// result may not be stored.
func (g *Gateway) storedAfter(r *Request, m Message, waited session.Outcome, over bool) (turnstile.StoredMessage, error) {
	ctx, cancel := r.More()
	defer cancel()
	stored, err := g.deps.Client.Session(m.Session).Message(ctx, m.ID)
	if !over {
		return stored, err
	}
	if err != nil || stored.Outcome == nil {
		stored.State = stateOf(waited)
	}
	stored.Outcome = &waited
	return stored, nil
}

// stateOf is the state of a message with this outcome.
func stateOf(o session.Outcome) session.MessageState {
	if o.Status == session.StatusDone || o.Status == session.StatusInterrupted {
		return session.MessageCompleted
	}
	return session.MessageArchived
}

// deleteMessage ends one message: it removes it from the queue, or with ?running=true ends its
// turn.
func (g *Gateway) deleteMessage(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("running"); err != nil {
		return err
	}
	running, err := r.Bool("running")
	if err != nil {
		return err
	}
	m := Message{Session: r.Session, ID: r.PathValue("id")}
	if err := session.ValidateID(m.ID); err != nil {
		return err
	}
	chat := r.chat()
	o, err := chat.Cancel(r.Work(), m.ID)
	if errors.Is(err, session.ErrRunning) && running {
		if err := chat.CancelTurn(r.Work(), m.ID); err != nil {
			return err
		}
		m.State = session.MessageRunning
		return Respond(w, http.StatusAccepted, m)
	}
	if err != nil {
		return err
	}
	m.State, m.Outcome = stateOf(o), r.Token.ended(o)
	return Respond(w, http.StatusOK, m)
}
