package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
)

// stream sends the message's text as it arrives. Chunks cannot be withdrawn: if the turn is run
// again after some were sent, an error ends the stream, and a repeated request gets the new turn.
func (c chat) stream(w http.ResponseWriter, r *gateway.Request, withUsage bool) error {
	return r.Stream(w, func(ctx context.Context, send func(string) error) error {
		s := &chatStream{chat: c, send: send}
		before := past{until: c.run}
		s.chunk(object{"role": "assistant", "content": ""}, nil)
		o, err := receipt.Follow(ctx, c.api.client.Session(c.place.session), c.place.message, "", func(e session.Event) error {
			before.pass(e, s.see)
			return s.err
		})
		switch {
		case errors.Is(s.err, errRestarted):
			s.err = nil
			s.data(failure{restarted("Repeat the request with the same Idempotency-Key to get the new text; without a key the repetition may be a second message.")})
			return s.err
		case s.err != nil:
			return s.err
		case err != nil:
			s.data(failure{interrupted(ctx, err)})
			return err
		case o.Status != session.StatusDone:
			s.data(failure{turnProblem(told(r, c.asks, o))})
			return s.err
		}
		finish := finishOf(o)
		if s.calls > 0 {
			finish = "tool_calls"
		}
		s.chunk(object{}, finish)
		if withUsage {
			chunk := s.new()
			chunk["choices"], chunk["usage"] = []object{}, usageOf(o)
			s.data(chunk)
		}
		s.write("[DONE]")
		return s.err
	})
}

type chatStream struct {
	chat
	send   func(string) error
	err    error
	output stream.Output
	told   int  // how many items the output had with the last text that was sent; 0: none was
	parted bool // the next text is another item
	calls  int  // of the client's functions
}

// see sends the chunks of an event.
func (s *chatStream) see(e session.Event) {
	switch drop := s.output.See(e); {
	case s.err != nil:
		return
	case drop >= 0 && drop < s.told:
		s.err = errRestarted
		return
	case drop == 0:
		s.parted = false
	case drop > 0:
		s.parted = true
	}
	switch e.Type {
	case session.EventText:
		text := e.Text
		if s.parted && s.told > 0 {
			text = "\n\n" + text
		}
		s.told, s.parted = s.output.Items, false
		s.chunk(object{"content": text}, nil)
	case session.EventToolStart:
		s.parted = true
		if e.Client {
			c, n := newCall(e.CallID, e.Name, e.Input), s.calls
			c.Index = &n
			s.calls++
			s.told = s.output.Items
			s.chunk(object{"tool_calls": []chatCall{c}}, nil)
			return
		}
		chunk := s.new()
		chunk["choices"], chunk["turnstile"] = []object{choice(object{}, nil)}, object{"tool": e.Name}
		s.data(chunk)
	case session.EventSteered:
		s.parted = true
	}
}

// new returns a chunk without choices.
func (s *chatStream) new() object {
	return object{"id": s.id(), "object": "chat.completion.chunk", "created": s.created.Unix(), "model": s.model}
}

func choice(delta object, finish any) object {
	return object{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": nil}
}

func (s *chatStream) chunk(delta object, finish any) {
	chunk := s.new()
	chunk["choices"] = []object{choice(delta, finish)}
	s.data(chunk)
}

func (s *chatStream) data(value any) {
	data, err := json.Marshal(value)
	if err != nil {
		s.err = err
		return
	}
	s.write(string(data))
}

func (s *chatStream) write(data string) {
	if s.err == nil {
		s.err = s.send("data: " + data + "\n\n")
	}
}
