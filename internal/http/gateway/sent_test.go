package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// What a model's server has sent for itself, such as thoughts, is kept in the transcript, and shown neither there nor in events.
func TestWhatServersSendIsNotShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workerOf(agent.Func(func(_ context.Context, turn *agent.Turn) (agent.Result, error) {
		for _, e := range turn.History {
			if e.Sent != nil {
				turn.Emit(agent.Event{Type: session.EventText, Text: e.Sent.From + string(e.Sent.Fields["x"])})
			}
		}
		sent := &session.Sent{From: "me", Fields: map[string]json.RawMessage{"x": []byte(`"<secret>"`)}}
		turn.Emit(agent.Event{Type: session.EventToolStart, Name: "look", CallID: "1", Sent: sent})
		turn.Emit(agent.Event{Type: session.EventToolEnd, CallID: "1", Output: []byte(`1`)})
		turn.Emit(agent.Event{Type: session.EventText, Text: "hello"})
		turn.Emit(agent.Event{Type: session.EventText, Sent: sent})
		return agent.Result{}, nil
	}))
	r.say("s", "a")
	var page json.RawMessage
	r.call("GET", "/v1/sessions/s/transcript", nil).want(200, &page)
	if got := string(page); strings.Contains(got, "secret") || strings.Contains(got, `"sent"`) || !strings.Contains(got, "hello") {
		t.Error(got)
	}
	r.say("s", "b")
	r.call("GET", "/v1/sessions/s/transcript", nil).want(200, &page)
	expect.Equal(t, "fields that the next turn has", strings.Count(string(page), "secret"), 2)
}
