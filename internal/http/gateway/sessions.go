package gateway

import (
	"errors"
	"net/http"

	"turnstile"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
)

// getSession returns a session without its transcript.
func (g *Gateway) getSession(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery(); err != nil {
		return err
	}
	view, err := ReadSession(r.Work(), g.deps.Admin.Session(r.Session))
	switch {
	case errors.Is(err, ErrUnknown):
		return unknownSession(r.Session)
	case err != nil:
		return err
	}
	if !r.Token.May(Operate) {
		for i := range view.Dead {
			view.Dead[i].Detail = ""
		}
		for i := range view.Failing {
			view.Failing[i].Error = ""
		}
	}
	return Respond(w, http.StatusOK, view)
}

// The number of entries of a page.
const (
	pageMost    = 500
	pageDefault = 100
)

// transcriptPage is a page of a transcript, oldest entry first.
type transcriptPage struct {
	Session      string          `json:"session"`
	TranscriptID string          `json:"session_id"`
	Entries      []session.Entry `json:"entries"`
	Before       int64           `json:"before"`             // of the page with older entries; 0: there is none
	EventID      string          `json:"event_id,omitempty"` // turnstile.TranscriptPage.EventID
}

// getTranscript returns a page of a transcript, from its end towards its beginning.
func (g *Gateway) getTranscript(w http.ResponseWriter, r *Request) error {
	if err := r.CheckQuery("before", "limit", "session_id"); err != nil {
		return err
	}
	limit, err := r.Number("limit", 1, pageMost, pageDefault)
	if err != nil {
		return err
	}
	before, err := r.Number("before", 1, 1<<31-1, 0)
	if err != nil {
		return err
	}
	id := r.URL.Query().Get("session_id")
	if id == "" {
		info, err := g.deps.Client.Session(r.Session).Info(r.Work())
		if err != nil {
			return err
		}
		if !Known(info) {
			return unknownSession(r.Session)
		}
	} else if err := session.ValidateID(id); err != nil {
		return err
	}
	page, err := g.deps.Client.Session(r.Session).Transcript(r.Work(), turnstile.TranscriptQuery{ID: id, Before: int64(before), Limit: limit})
	if err != nil {
		return err
	}
	entries := append([]session.Entry{}, page.Entries...)
	for i := range entries {
		entries[i].Sent = nil // thoughts are for no user
	}
	return Respond(w, http.StatusOK, transcriptPage{r.Session, page.ID, entries, page.Before, page.EventID})
}

// deleteSession forgets a session.
func (g *Gateway) deleteSession(w http.ResponseWriter, r *Request) error {
	if err := r.Forget(); err != nil {
		return err
	}
	allowWrite(w)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// Forget deletes everything of the session in the path, in the way that the query says.
func (r *Request) Forget() error {
	if err := r.CheckQuery("undelivered"); err != nil {
		return err
	}
	var options []admin.EraseOption
	switch choice := r.URL.Query().Get("undelivered"); choice {
	case "":
	case "drop":
		options = append(options, admin.EraseUndelivered())
	default:
		return Fail(InvalidRequest, "undelivered is %.100q; it can be drop.", choice)
	}
	info, err := r.gateway.deps.Client.Session(r.Session).Info(r.Work())
	if err != nil {
		return err
	}
	if !Known(info) {
		return unknownSession(r.Session)
	}
	operated := r.gateway.deps.Admin.Session(r.Session)
	switch err := operated.Erase(r.Work(), options...); {
	case errors.Is(err, session.ErrUndelivered):
		return undelivered(r, operated, err)
	default:
		return err
	}
}

// undelivered returns the problem of a session with undelivered outcomes.
func undelivered(r *Request, s *admin.Session, cause error) error {
	n, err := s.Undelivered(r.Work())
	if err != nil {
		return err
	}
	stored := n.Waiting + n.GivenUp
	p := Fail(Undelivered, "%d outcomes are owed to destinations, %d are not delivered. "+
		"Wait for their delivery, or delete them with ?undelivered=drop.", n.Owed, stored)
	p.Owed, p.Stored = n.Owed, stored
	return because(cause, p)
}
