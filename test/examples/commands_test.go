package examples

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/session"
)

// example is the path of a file in examples.
func example(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(append([]string{"../../examples"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// pythonAgent is the Python example.
func pythonAgent(t *testing.T) *exec.Agent {
	t.Helper()
	needPython(t)
	return newAgent(t, exec.Config{Command: []string{"python3", example(t, "python-agent", "agent.py")}, Format: exec.JSONL, Grace: time.Minute})
}

// emitting is a turn with a function that gets its events.
func emitting(turn *agent.Turn, emit func(agent.Event)) *agent.Turn {
	t := *turn
	t.Host.Emit = emit
	return &t
}

func turn(text string) *agent.Turn {
	return &agent.Turn{Session: "s", TranscriptID: "sid", ID: "t1", Fence: 1, Attempt: 1, Messages: []session.Message{{ID: "m1", Text: text}}}
}

func TestPythonAgent(t *testing.T) {
	t.Parallel()
	a := pythonAgent(t)
	for _, c := range []struct {
		state   string
		history []session.Entry
		number  int
	}{
		{number: 1},
		{state: `{"agent":"python-example","turns":6}`, number: 7},
		{state: `{"agent":"another","turns":6}`, number: 1},
		{history: []session.Entry{{Role: session.RoleUser, Turn: "t0"}, {Role: session.RoleAssistant, Turn: "t0"}}, number: 2},
	} {
		tn := turn("hällo <b>world</b>")
		tn.State, tn.History = json.RawMessage(c.state), c.history
		var types []session.EventType
		var text, state, usage string
		_, err := a.Run(t.Context(), emitting(tn, func(e agent.Event) {
			types = append(types, e.Type)
			switch e.Type {
			case session.EventText:
				text += e.Text
			case session.EventState:
				state = string(e.Data)
			case session.EventUsage:
				usage = fmt.Sprintf("%s %d %d", e.Usage.Model, e.Usage.InputTokens, e.Usage.OutputTokens)
			case session.EventToolEnd:
				if string(e.Output) != `{"words": 2}` {
					t.Errorf("the tool's output is %s", e.Output)
				}
			}
		}))
		want := fmt.Sprintf("Turn %d, 2 words: hällo <b>world</b>", c.number)
		wantState := fmt.Sprintf(`{"agent": "python-example", "turns": %d}`, c.number)
		if err != nil || text != want || state != wantState || usage != "python-example 2 6" {
			t.Errorf("text %q, state %s, usage %s, error %v; want %q", text, state, usage, err, want)
		}
		for _, of := range []session.EventType{session.EventState, session.EventToolStart, session.EventToolEnd, session.EventText, session.EventUsage} {
			if !slices.Contains(types, of) {
				t.Errorf("there was no %s in %q", of, types)
			}
		}
	}
}

func TestPythonAgentTakesASteer(t *testing.T) {
	t.Parallel()
	a := pythonAgent(t)
	tn := turn("one two three four five six")
	steers := make(chan agent.Steer, 1)
	tn.Host.Steers = steers
	accepted, text := 0, ""
	_, err := a.Run(t.Context(), emitting(tn, func(e agent.Event) {
		if e.Type != session.EventText {
			return
		}
		if text == "" {
			steers <- agent.NewSteer(session.Message{ID: "m2", Text: "and\nmore"}, func() { accepted++ })
		}
		text += e.Text
	}))
	if err != nil || accepted != 1 || !strings.HasSuffix(text, " ...and you added: and more") || !strings.Contains(text, "five six") {
		t.Errorf("accepted %d, error %v: %q", accepted, err, text)
	}
}

// An interrupted agent ends by itself long before the grace, and reports its usage.
func TestPythonAgentIsInterrupted(t *testing.T) {
	t.Parallel()
	a := pythonAgent(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	var types []session.EventType
	_, err := a.Run(ctx, emitting(turn(strings.Repeat("long ", 10_000)), func(e agent.Event) {
		if types = append(types, e.Type); e.Type == session.EventText {
			cancel(cause)
		}
	}))
	if !errors.Is(err, cause) || !strings.HasSuffix(err.Error(), ": interrupted") || types[len(types)-1] != session.EventUsage {
		t.Errorf("%v after %q", err, types)
	}
}

func TestCommandsUnderAWorker(t *testing.T) {
	t.Parallel()
	t.Run("python", func(t *testing.T) {
		t.Parallel()
		newConversation(t, pythonAgent(t), 0).wants("hello", "Turn 1, 1 words: hello")
	})
	t.Run("shell", func(t *testing.T) {
		t.Parallel()
		c := newConversation(t, newAgent(t, exec.Config{Command: []string{"sh", example(t, "shell-agent", "agent.sh")}}), 0)
		c.wants("hello", "In session "+c.key+" you said: hello")
	})
}
