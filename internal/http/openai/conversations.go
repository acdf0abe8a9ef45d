package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"turnstile/internal/http/gateway"
	"turnstile/internal/text/boundedjson"
	"turnstile/pkg/session"
)

// A conversation is a session, and its items are the session's current transcript. What a session has no place for is
// refused.
const (
	noMetadata = "A conversation keeps no metadata: send it with a response."
	noItems    = "A conversation gets its items by responses: send them as the input of one."
	noDelete   = "An item cannot be deleted alone. The last turn is removed by /v1/sessions/{s}/undo, everything by DELETE of the conversation."
)

// refusing serves what a conversation cannot do.
func refusing(param, why string) func(http.ResponseWriter, *gateway.Request) error {
	return func(http.ResponseWriter, *gateway.Request) error { return refuse(param, "%s", why) }
}

// postConversation makes a session without a message. The same Idempotency-Key has the same one.
func (a *API) postConversation(w http.ResponseWriter, r *gateway.Request) error {
	data, err := r.ReadAny(w) // SDKs send none without parameters
	if err != nil {
		return err
	}
	var body struct {
		Items    []json.RawMessage          `json:"items"`
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if len(data) > 0 {
		if err := boundedjson.Unmarshal(data, &body); err != nil {
			return gateway.BadJSON(err)
		}
	}
	switch {
	case len(body.Items) > 0:
		return refuse("items", noItems)
	case len(body.Metadata) > 0:
		return refuse("metadata", noMetadata)
	}
	to, err := identify(r, newConversation, "", nil)
	if err != nil {
		return err
	}
	if err := r.See(to.session); err != nil {
		return err
	}
	at, err := a.kept.Created(r.Work(), to.session)
	if err == nil && at.IsZero() {
		_, err = a.client.Session(to.session).As(r.Token.Name).NewTranscript(r.Work())
	}
	if err != nil {
		return err
	}
	return a.getConversation(w, r)
}

// created returns when a conversation began.
func (a *API) created(ctx context.Context, sessionKey string) (time.Time, error) {
	at, err := a.kept.Created(ctx, sessionKey)
	if err == nil && at.IsZero() {
		return at, gateway.Fail(gateway.UnknownSession, "There is no conversation %s.", sessionKey)
	}
	return at, err
}

// getConversation sends the request's session as a conversation.
func (a *API) getConversation(w http.ResponseWriter, r *gateway.Request) error {
	at, err := a.created(r.Work(), r.Session)
	if err != nil {
		return err
	}
	return gateway.Respond(w, http.StatusOK, struct {
		ID       string            `json:"id"`
		Object   string            `json:"object"`
		Created  int64             `json:"created_at"`
		Metadata map[string]string `json:"metadata"`
	}{r.Session, "conversation", at.Unix(), map[string]string{}})
}

// deleteConversation erases the session.
func (a *API) deleteConversation(w http.ResponseWriter, r *gateway.Request) error {
	if err := r.Forget(); err != nil {
		return err
	}
	return gateway.Respond(w, http.StatusOK, deleted{r.Session, "conversation.deleted", true})
}

// getItems lists the items of a conversation.
func (a *API) getItems(w http.ResponseWriter, r *gateway.Request) error {
	q, err := listed(r)
	if err != nil {
		return err
	}
	of, err := a.conversation(r)
	if err != nil {
		return err
	}
	place := of.length
	if q.ascending {
		place = 0
	}
	if q.after != "" {
		var turn string
		switch turn, q.after, err = a.turnOf(r.Work(), r.Session, q.after); {
		case err != nil:
			return err
		case turn == "":
			return q.respond(w)
		}
		fence := fenceOf(turn)
		if !q.ascending {
			fence++
		}
		if place, err = of.before(r.Work(), fence); err != nil {
			return err
		}
	}
	err = of.turns(r.Work(), place, q.ascending, func(entries []session.Entry) bool {
		return q.seeAll(itemsOf(r.Session, entries[0].Turn, entries)) && q.found // else the turn that is named does not have it
	})
	if err != nil {
		return err
	}
	return q.respond(w)
}

// conversation returns the current transcript of the request's session.
func (a *API) conversation(r *gateway.Request) (transcript, error) {
	if _, err := a.created(r.Work(), r.Session); err != nil {
		return transcript{}, err
	}
	return a.transcript(r.Work(), r.Session, "")
}

// getItem sends one item of a conversation.
func (a *API) getItem(w http.ResponseWriter, r *gateway.Request) error {
	of, err := a.conversation(r)
	if err != nil {
		return err
	}
	turn, id, err := a.turnOf(r.Work(), r.Session, r.PathValue("id"))
	var entries []session.Entry
	if err == nil && turn != "" {
		entries, err = of.turn(r.Work(), turn)
	}
	if err != nil {
		return err
	}
	for _, item := range itemsOf(r.Session, turn, entries) {
		if own, _ := about(item); own == id {
			return gateway.Respond(w, http.StatusOK, item)
		}
	}
	return gateway.Fail(gateway.UnknownMessage, "The conversation has no item %.100q.", r.PathValue("id"))
}
