package cli

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

func newAgent(t *testing.T, kind Kind, config Config) *Agent {
	t.Helper()
	a, err := New(kind, config)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func turn(text string) *agent.Turn {
	return &agent.Turn{
		Session: "agent:test", TranscriptID: "sid-1", ID: "turn-1", Fence: 7, Attempt: 1,
		Messages: []session.Message{{ID: "m1", Text: text}},
	}
}

func specOf(a *Agent, dir, resume string) command.Spec {
	return command.Spec{
		Argv: a.program.argv(a.config.Command, a.config.Model, resume),
		Dir:  dir, Env: a.environ(&agent.Turn{Session: "test"}), Logger: a.config.Logger,
	}
}

// emitting is a turn with the function for its events.
func emitting(turn *agent.Turn, emit func(agent.Event)) *agent.Turn {
	t := *turn
	t.Host.Emit = emit
	return &t
}

// played is the output of a turn.
type played struct {
	events []agent.Event
	reply  string // as a worker would store it
	err    error
}

func playTurn(t *testing.T, a *Agent, tn *agent.Turn) played {
	t.Helper()
	return playWith(t.Context(), a, tn)
}

// playWith plays a turn. Its own Emit, if it has one, gets the events, too.
func playWith(ctx context.Context, a *Agent, tn *agent.Turn) (p played) {
	var mu sync.Mutex
	var result agent.Result
	result, p.err = a.Run(ctx, emitting(tn, func(e agent.Event) {
		mu.Lock()
		p.events = append(p.events, e)
		mu.Unlock()
		tn.Emit(e)
	}))
	for _, e := range p.events {
		switch e.Type {
		case session.EventText:
			p.reply += e.Text
		case session.EventToolStart, session.EventToolEnd:
			p.reply = ""
		}
	}
	if result.Text != "" {
		p.reply = result.Text
	}
	return p
}

func (p played) wantReply(t *testing.T, want string) {
	t.Helper()
	if p.err != nil || p.reply != want {
		t.Errorf("reply %q, error %v, want %q", p.reply, p.err, want)
	}
}

func (p played) want(t *testing.T, of session.EventType, text string) {
	t.Helper()
	var got string
	for _, e := range p.events {
		if e.Type == of {
			got += e.Text
		}
	}
	if got != text {
		t.Errorf("%s: %q, want %q", of, got, text)
	}
}

// wantTool wants one tool that has started and ended, and returns why it failed.
func (p played) wantTool(t *testing.T, name string) (failure string) {
	t.Helper()
	var started, ended []agent.Event
	for _, e := range p.events {
		switch e.Type {
		case session.EventToolStart:
			started = append(started, e)
		case session.EventToolEnd:
			ended = append(ended, e)
		}
	}
	if len(started) != 1 || len(ended) != 1 || started[0].Name != name || started[0].CallID != ended[0].CallID ||
		len(started[0].Input) == 0 || len(ended[0].Output) == 0 == (ended[0].Error == "") {
		t.Fatalf("tools %+v, %+v", started, ended)
	}
	return ended[0].Error
}

// wantUsage checks the usage that all three programs report alike.
func (p played) wantUsage(t *testing.T, want session.Usage) {
	t.Helper()
	var got session.Usage
	for _, e := range p.events {
		if e.Type == session.EventUsage {
			got = got.Plus(*e.Usage)
		}
	}
	if got.Model != want.Model || got.InputTokens != want.InputTokens || got.CachedTokens != want.CachedTokens || got.OutputTokens == 0 {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

// state is the state that a worker would store.
func (p played) state(t *testing.T) (kept json.RawMessage) {
	t.Helper()
	for _, e := range p.events {
		if e.Type == session.EventState {
			kept = e.Data
		}
	}
	if kept == nil {
		t.Fatalf("no state; error %v", p.err)
	}
	return kept
}

func sessionOf(t *testing.T, kept json.RawMessage) string {
	t.Helper()
	var s state
	if err := json.Unmarshal(kept, &s); err != nil {
		t.Fatal(err)
	}
	return s.Session
}
