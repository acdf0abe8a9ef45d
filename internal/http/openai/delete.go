package openai

import (
	"net/http"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
)

// deleted is OpenAI's JSON of something that was deleted.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// deleteResponse deletes the stored message of a response that has ended, with its result. The conversation's
// transcript keeps its words, as OpenAI's conversations keep their items.
func (a *API) deleteResponse(w http.ResponseWriter, r *gateway.Request) error {
	p, m, err := a.find(r)
	if err != nil {
		return err
	}
	var there bool
	switch m.State {
	case session.MessageCompleted:
		there, err = a.kept.DropResult(r.Work(), p.session, p.message)
	case session.MessageArchived:
		var n int
		n, err = a.admin.Session(p.session).DeleteDeadLetters(r.Work(), p.message)
		there = n > 0
	default:
		return gateway.Fail(gateway.Running, "The response waits or runs: cancel it, and delete it when it has ended.")
	}
	switch {
	case err != nil:
		return err
	case !there:
		return unknownResponse(p.id())
	}
	return gateway.Respond(w, http.StatusOK, deleted{p.id(), "response", true})
}
