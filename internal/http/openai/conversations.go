package openai

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"turnstile"
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
	if err := a.eachItem(r.Work(), r.Session, q.see); err != nil {
		return err
	}
	return q.respond(w)
}

// getItem sends one item of a conversation.
func (a *API) getItem(w http.ResponseWriter, r *gateway.Request) error {
	var found any
	err := a.eachItem(r.Work(), r.Session, func(item any) bool {
		if id, _ := about(item); id == r.PathValue("id") {
			found = item
		}
		return found == nil
	})
	switch {
	case err != nil:
		return err
	case found == nil:
		return gateway.Fail(gateway.UnknownMessage, "The conversation has no item %.100q.", r.PathValue("id"))
	}
	return gateway.Respond(w, http.StatusOK, found)
}

// eachItem visits the items of the turns that have ended, the newest first, until see returns false. It holds the
// entries of one turn and one page.
func (a *API) eachItem(ctx context.Context, sessionKey string, see func(item any) bool) error {
	if _, err := a.created(ctx, sessionKey); err != nil {
		return err
	}
	var turn []session.Entry // newest first
	more := true
	end := func() {
		if len(turn) > 0 {
			slices.Reverse(turn)
			for _, item := range slices.Backward(itemsOf(turn[0].Turn, turn)) {
				more = more && see(item)
			}
		}
		turn = nil
	}
	for q := (turnstile.TranscriptQuery{Limit: transcriptPage}); ; {
		page, err := a.client.Session(sessionKey).Transcript(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range slices.Backward(page.Entries) {
			if len(turn) > 0 && turn[0].Turn != e.Turn {
				end()
			}
			if !more {
				return nil
			}
			if e.Role != session.RoleSystem { // it cannot be read, and says of no turn
				turn = append(turn, e)
			}
		}
		if q.ID, q.Before = page.ID, page.Before; q.Before == 0 {
			end()
			return nil
		}
	}
}
