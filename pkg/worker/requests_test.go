package worker_test

import (
	"errors"
	"log/slog"
	"testing"

	"turnstile"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/model"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// A turn ends with the call of the client's function, and goes on with its result in the next one, once. An
// undo opens the call again.
func TestRequestsOfClients(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	server := modelserver.New(t,
		modelserver.Stream(modelserver.Text("let me see"), modelserver.Call("c1", "pick", `{"of": "<1>"}`)),
		modelserver.Reply("It is one."), modelserver.Reply("It is two."), modelserver.Reply("Again two."),
	)
	a, err := model.New(model.Config{URL: server.URL(), Model: "m", Instructable: true, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	r.worker(a)
	s := r.client.Session(r.key)
	turn := func(m turnstile.Message) session.Outcome {
		t.Helper()
		_, err := s.Send(t.Context(), m)
		expect.OK(t, err)
		o, err := s.Wait(t.Context(), m.ID)
		expect.OK(t, err)
		expect.Equal(t, "status", o.Status, session.StatusDone)
		return o
	}
	result := func(id, after, output string) turnstile.Message {
		return turnstile.Message{ID: id, After: after, Request: &session.ModelRequest{Brought: session.Brought{
			Results: []session.CallResult{{CallID: "c1", Output: output}},
		}}}
	}
	asks := &session.ModelRequest{Functions: []session.Function{{Name: "pick"}}}

	expect.Equal(t, "reply", turn(turnstile.Message{ID: "m1", Text: "go", Request: asks}).Reply, "")
	var events []session.Event
	for e, err := range s.Events(t.Context(), turnstile.EventsOf("m1")) {
		expect.OK(t, err)
		if e.Type == session.EventToolStart || e.Type == session.EventToolEnd {
			events = append(events, e)
		}
	}
	if len(events) != 1 || !events[0].Client || events[0].CallID != "c1" || string(events[0].Input) != `{"of":"<1>"}` {
		t.Errorf("events of tools: %+v", events)
	}
	expect.Equal(t, "reply", turn(result("m2", "m1", "one")).Reply, "It is one.")
	if _, err := s.Send(t.Context(), result("m3", "m1", "two")); !errors.Is(err, session.ErrNotLast) {
		t.Errorf("a second result: %v", err)
	}
	undone, err := s.Undo(t.Context())
	expect.OK(t, err)
	expect.Equal(t, "undone entries", undone.Entries, 2)
	expect.Equal(t, "reply", turn(result("m4", "", "two")).Reply, "It is two.")
	_, err = s.Retry(t.Context())
	expect.OK(t, err)
	for e, err := range s.Events(t.Context(), turnstile.EventsAfter("")) {
		expect.OK(t, err)
		if e.Type == session.EventTurnEnded && e.Reply == "Again two." {
			break
		}
	}
	page, err := s.Transcript(t.Context(), turnstile.TranscriptQuery{})
	expect.OK(t, err)
	var roles []string
	for _, e := range page.Entries {
		roles = append(roles, string(e.Role))
	}
	expect.List(t, "transcript", roles, "user", "assistant", "tool", "user", "assistant")
	if use := page.Entries[2].Tool; !use.Client || use.Output != nil || use.Error != "" {
		t.Errorf("the call is %+v", use)
	}
	if b := page.Entries[3].Brought; b == nil || len(b.Results) != 1 || b.Results[0].Output != "two" {
		t.Errorf("the message brought %+v", b)
	}
	for i, want := range []string{"one", "two", "two"} {
		q := server.Requests()[i+1]
		if last := q.Messages[len(q.Messages)-1]; len(q.Messages) != 3 || last.ToolCallID != "c1" || last.Text() != want {
			t.Errorf("request %d: %s", i+2, q.Body)
		}
		if i > 0 && len(q.Tools) > 0 {
			t.Errorf("request %d has the tools of another message", i+2)
		}
	}
}

// No agent that takes no requests gets one, and no message with one joins another's turn.
func TestRequestsForAgentsThatTakeNone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker(agent.Func(nil))
	s := r.client.Session(r.key)
	m := turnstile.Message{ID: "m1", Text: "go", Request: &session.ModelRequest{Instructions: "Be brief."}}
	_, err := s.Send(t.Context(), m)
	expect.OK(t, err)
	o, err := s.Wait(t.Context(), "m1")
	expect.OK(t, err)
	expect.Equal(t, "end", string(o.Status)+" "+o.Code+" "+o.Error, "failed invalid_message the agent takes no instructions, tools or settings of clients")
	for _, mode := range []session.Mode{session.ModeSteer, session.ModeCollect} {
		m.ID, m.Mode = "m2", mode
		if _, err := s.Send(t.Context(), m); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
