package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

// postResponse stores a message, and responds with its response: at once if in the background, as a
// stream, or when the message ends.
func (a *API) postResponse(w http.ResponseWriter, r *gateway.Request) error {
	data, err := r.Read(w)
	if err != nil {
		return err
	}
	var body responseBody
	if err := boundedjson.Unmarshal(data, &body); err != nil {
		return gateway.BadJSON(err)
	}
	if d, err := body.decision(); d != nil || err != nil {
		if err != nil {
			return err
		}
		return a.decide(w, r, body, *d)
	}
	to, err := body.target(r, data)
	if err != nil {
		return err
	}
	agent, err := a.agentOf(r, body.Model)
	if err != nil {
		return err
	}
	whole, key := body.Conversation == "" && body.Previous == "", to.session
	if whole {
		key = ""
	}
	asks, all, err := a.instructed(r, key, agent, data, body.statements)
	if err != nil {
		return err
	}
	if err := body.check(asks != nil); err != nil {
		return err
	}
	if asks != nil {
		if err := a.refer(r, all, whole); err != nil {
			return err
		}
	}
	m, err := a.fit(w, all, whole, func(all []statement) (m turnstile.Message, err error) {
		text, files := joined(all)
		q := asks
		if asks != nil {
			if q, text, files, err = folded("input", all, whole, *asks); err != nil {
				return m, err
			}
		}
		o := origin{Model: body.Model, Background: body.Background, Previous: body.Previous, Temporary: to.temporary}
		m, err = o.message(text, files, body.Metadata, r.Token.Name)
		m.Agent, m.Request = agent, q
		return m, err
	})
	if err != nil {
		return err
	}
	to.streamed = body.Stream
	receipt, err := a.send(r, to, m)
	if err != nil {
		return err
	}
	p := place{receipt.Session, receipt.ID}
	if !body.Background {
		defer a.whenGone(r, to, p)()
	}
	var before session.Info
	if repeated := body.Stream && receipt.Duplicate; repeated {
		if before, err = a.client.Session(p.session).Info(r.Work()); err != nil {
			return err
		}
	}
	stored, err := a.message(r.Work(), p, m)
	if err != nil {
		return err
	}
	switch {
	case body.Stream:
		return unrepeated(r, a.stream(w, r, p, stored, position{after: -1, run: lastRun(stored, before.Fence)}))
	case body.Background:
		return a.respond(w, r, p, stored)
	}
	return a.wait(w, r, p, stored)
}

// target is where the message goes: to the conversation that the request names or continues, or to a
// new one.
func (b responseBody) target(r *gateway.Request, data []byte) (t target, err error) {
	key, after := string(b.Conversation), ""
	if b.Previous != "" {
		previous, ok := parseResponseID(b.Previous)
		switch {
		case !ok:
			return t, refuse("previous_response_id", "%.100q is no id of a response.", b.Previous)
		case key != "" && key != previous.session:
			return t, refuse("conversation", "The previous response is of the conversation %s.", previous.session)
		}
		key = previous.session
		after = previous.message
	}
	if t, err = identify(r, responseSession, key, data); err != nil {
		return t, err
	}
	t.after = after
	temporary, err := wantsTemporary(r)
	switch {
	case temporary && (key != "" || b.Background):
		return t, refuse(temporaryHeader, "%s is for a request without a conversation and background.", temporaryHeader)
	case b.Store != nil && !*b.Store && key == "" && !b.Background:
		temporary = true
	}
	t.temporary = temporary
	return t, err
}

// message reads a message that was just accepted, without its text and files, so that a wait does
// not hold them. If it is missing, it ended and its result is not kept.
func (a *API) message(ctx context.Context, p place, sent turnstile.Message) (turnstile.StoredMessage, error) {
	m, err := a.client.Session(p.session).Message(ctx, p.message)
	if errors.Is(err, session.ErrNotFound) {
		m, err = turnstile.StoredMessage{Message: session.Message{ID: sent.ID, Meta: sent.Meta, Request: sent.Request}, State: session.MessagePending}, nil
	}
	if err == nil && m.AcceptedAt.IsZero() {
		m.AcceptedAt, err = a.bodies.Now(ctx)
	}
	return light(m), err
}

// light is a message without its text, files and history.
func light(m turnstile.StoredMessage) turnstile.StoredMessage {
	m.Message.Text, m.Message.Attachments = "", nil
	if q := m.Request; q != nil {
		settings := *q
		settings.Brought, m.Request = session.Brought{}, &settings
	}
	return m
}

// respond sends the current state of a response.
func (a *API) respond(w http.ResponseWriter, r *gateway.Request, p place, m turnstile.StoredMessage) error {
	ctx, cancel := r.More()
	defer cancel()
	if _, err := r.Reads(ctx); err != nil {
		return err
	}
	if m.Outcome != nil {
		o := told(r, m.Request, *m.Outcome)
		m.Outcome = &o
	}
	now, err := a.stored(ctx, p, m)
	if err != nil {
		return err
	}
	return gateway.Respond(w, http.StatusOK, now)
}

// wait sends a response when it ends.
func (a *API) wait(w http.ResponseWriter, r *gateway.Request, p place, m turnstile.StoredMessage) error {
	o, err := a.await(r, p)
	if err != nil {
		return a.unended(w, r, p, err)
	}
	m.Outcome = &o
	return a.respond(w, r, p, m)
}

// find returns the message of the response in the path. A message that another route stored is not
// found.
func (a *API) find(r *gateway.Request) (p place, m turnstile.StoredMessage, err error) {
	id := r.PathValue("id")
	p, ok := parseResponseID(id)
	if !ok || r.See(p.session) != nil {
		return p, m, unknownResponse(id)
	}
	m, err = a.client.Session(p.session).Message(r.Work(), p.message)
	if errors.Is(err, session.ErrNotFound) || err == nil && !ours(m.Message) {
		err = unknownResponse(id)
	}
	return p, m, err
}

// getResponse sends the current state of a response, or streams it.
func (a *API) getResponse(w http.ResponseWriter, r *gateway.Request) error {
	q, from := r.URL.Query(), position{after: -1}
	if text := q.Get("starting_after"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return refuse("starting_after", "starting_after is %.100q: use the sequence_number of an event.", text)
		}
		from.after = n
	}
	streamed, err := wantsStream(w, r)
	if err != nil {
		return err
	}
	var before session.Info
	if p, ok := parseResponseID(r.PathValue("id")); ok && streamed && from.after < 0 && r.See(p.session) == nil {
		if before, err = a.client.Session(p.session).Info(r.Work()); err != nil {
			return err
		}
	}
	p, m, err := a.find(r)
	switch {
	case err != nil:
		return err
	case !streamed:
		return a.respond(w, r, p, m)
	case m.AcceptedAt.IsZero():
		return unknownResponse(p.id()) // an asynq.Client stored it a moment ago
	case from.after < 0:
		from.run = lastRun(m, before.Fence)
	}
	return a.stream(w, r, p, m, from)
}

// wantsStream reports whether a GET asks for a stream: in its query, or in a body, as OpenAI's SDK for
// Go does.
func wantsStream(w http.ResponseWriter, r *gateway.Request) (bool, error) {
	data, err := r.ReadAny(w) // the SDK does not say that it is JSON
	if err != nil {
		return false, err
	}
	var body struct {
		Stream bool `json:"stream"`
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &body); err != nil {
			return false, gateway.BadJSON(err)
		}
	}
	switch r.URL.Query().Get("stream") {
	case "":
		return body.Stream, nil
	case "true", "false":
		return r.URL.Query().Get("stream") == "true", nil
	}
	return false, refuse("stream", "stream is true or false.")
}

// postCancel ends a response that waits or runs, and no other message. Without the right to read, the
// client learns its status only.
func (a *API) postCancel(w http.ResponseWriter, r *gateway.Request) error {
	p, m, err := a.find(r)
	if err != nil {
		return err
	}
	chat := a.client.Session(p.session).As(r.Token.Name)
	o, err := chat.Cancel(r.Work(), p.message)
	if errors.Is(err, session.ErrRunning) {
		if err = chat.CancelTurn(r.Work(), p.message); err == nil {
			if o, err = chat.Wait(r.Work(), p.message); errors.Is(err, context.DeadlineExceeded) {
				return a.cancelled(w, r, p, m) // the turn ends later
			}
		}
	}
	if errors.Is(err, session.ErrNotFound) {
		return unknownResponse(p.id())
	}
	if err != nil {
		return err
	}
	m.Outcome = &o
	return a.cancelled(w, r, p, m)
}

// cancelled responds to a cancel with the response's current state.
func (a *API) cancelled(w http.ResponseWriter, r *gateway.Request, p place, m turnstile.StoredMessage) error {
	if r.Token.May(gateway.Read) {
		return a.respond(w, r, p, m)
	}
	now := p.begun(session.Message{}, m.AcceptedAt)
	switch {
	case m.Outcome != nil:
		now = now.ended(session.Outcome{Status: m.Outcome.Status}, m.EndedAt, []any{})
	case m.State == session.MessageRunning || m.State == session.MessageRetry:
		now.Status = inProgress
	}
	return gateway.Respond(w, http.StatusOK, now)
}
