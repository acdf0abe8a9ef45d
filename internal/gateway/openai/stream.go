package openai

import (
	"context"
	"encoding/json"
	"net/http"

	"turnstile/internal/gateway"
	"turnstile/pkg/session"
)

// stream sends a response's events behind a number, until the response has ended.
func (a *API) stream(w http.ResponseWriter, r *gateway.Request, p place, begun response, n numbers, after int64) error {
	return r.Stream(w, func(ctx context.Context, send func(string) error) error {
		s := &sender{send: send, after: after, found: after <= queuedNumber}
		t := newTranslation(begun, n, s.event)
		ended := false
		o, err := a.client.FollowEnd(ctx, p.session, p.message, n.accepted, func(e session.Event) {
			if e.Type == session.EventTurnEnded {
				ended = true
			}
			t.see(e)
		})
		if err != nil {
			return err
		}
		work, cancel := r.More()
		defer cancel()
		output, err := a.output(work, o)
		if err != nil {
			return err // the client has no end, and opens the stream again
		}
		t.end(begun.ended(o, output), ended)
		return s.failed
	})
}

// sender sends those events that the client does not have.
type sender struct {
	send   func(string) error
	after  int64
	found  bool // an event had that number: the client has all before it
	failed error
}

func (s *sender) event(number int64, kind string, fields object) {
	if s.found = s.found || number == s.after; number <= s.after || s.failed != nil {
		return
	}
	if !s.found {
		s.found = true
		s.event(number-1, "error", object{
			"code": "events_lost", "param": nil,
			"message": "Events behind starting_after are not stored any more. What follows is what is left; the response's end has all of its output.",
		})
	}
	fields["type"], fields["sequence_number"] = kind, number
	data, err := json.Marshal(fields)
	if err == nil {
		err = s.send("event: " + kind + "\ndata: " + string(data) + "\n\n")
	}
	s.failed = err
}
