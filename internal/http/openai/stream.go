package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
)

// position is where a stream begins.
type position struct {
	after int64 // the number that the client has; -1: none
	run   int64 // if none: see lastRun
}

// stream sends a response's events until the response ends.
func (a *API) stream(w http.ResponseWriter, r *gateway.Request, p place, m turnstile.StoredMessage, from position) error {
	return r.Stream(w, func(ctx context.Context, send func(string) error) error {
		s := &sender{send: send, after: from.after, last: max(from.after, 0), found: from.after <= queuedNumber}
		begun := p.begun(m.Message, m.AcceptedAt)
		t := newTranslation(p, begun, newNumbers(m.AcceptedAt), s.event)
		before := past{until: from.run}
		ended := false
		o, err := receipt.Follow(ctx, a.client.Session(p.session), p.message, "", func(e session.Event) error {
			if e.Type == session.EventTurnEnded {
				ended = true
			}
			before.pass(e, t.see)
			return s.failed
		})
		if err == nil && s.failed == nil {
			work, done := r.More()
			defer done()
			var read func()
			if read, err = r.Reads(work); err == nil {
				defer read()
			}
			var output []any
			if err == nil {
				output, err = a.output(work, o)
			}
			if err == nil {
				m.EndedAt, err = a.endOf(work, p, m)
			}
			if err == nil {
				t.end(begun.ended(told(r, m.Request, o), m.EndedAt, output), ended)
			}
		}
		switch {
		case errors.Is(s.failed, errRestarted):
			return s.problem(restarted("Open the response's stream again behind its last event, or get the response when it has ended."))
		case errors.Is(s.failed, errLost):
			return s.problem(lost)
		case err != nil:
			_ = s.problem(interrupted(ctx, err)) // for clients that a broken body does not reach, because of a proxy
			return err
		}
		return s.failed
	})
}

// sender sends those events that the client does not have.
type sender struct {
	send   func(string) error
	after  int64
	found  bool // an event had that number: the client has all before it
	told   bool // the client has text of this turn, from this stream or from the one before it
	last   int64
	failed error
}

// problem sends an event error, which SDKs take for the stream's end. It has the number of the event
// before it, after which a reopened stream continues.
func (s *sender) problem(p problem) error {
	data, err := json.Marshal(errorEvent(p, s.last))
	if err != nil {
		return err
	}
	return s.send("event: error\ndata: " + string(data) + "\n\n")
}

// errorEvent has a problem in both forms that are in use: OpenAI's documents have one, its server and
// SDKs the other.
func errorEvent(p problem, number int64) object {
	return object{"type": "error", "sequence_number": number, "code": p.Code, "message": p.Message, "param": p.Param, "error": p}
}

func (s *sender) event(number int64, kind string, fields object) {
	if s.failed != nil {
		return
	}
	void := s.told && kind == "response.in_progress"
	s.told = s.told && !void || kind == "response.output_text.delta"
	if s.found = s.found || number == s.after; number <= s.after {
		return
	}
	if !s.found {
		s.failed = errLost
		return
	}
	fields["type"], fields["sequence_number"] = kind, number
	data, err := json.Marshal(fields)
	if err == nil {
		err = s.send("event: " + kind + "\ndata: " + string(data) + "\n\n")
	}
	if s.failed, s.last = err, number; err == nil && void {
		s.failed = errRestarted // after this number, the client has no valid text
	}
}
