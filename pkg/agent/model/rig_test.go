package model

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

const key = "sk-secret-of-the-test"

// rig is an agent, its model, and the events of its turns.
type rig struct {
	*testing.T
	model *modelserver.Server
	agent *Agent

	mu     sync.Mutex
	events []agent.Event
	slept  []time.Duration
	log    strings.Builder
}

func newRig(t *testing.T, config Config, script ...modelserver.Response) *rig {
	t.Helper()
	if len(config.Tools) > 0 {
		expect.NotQuick(t)
	}
	r := &rig{T: t, model: modelserver.New(t, script...)}
	if config.URL == "" {
		if config.URL = r.model.URL(); config.Provider == providerAnthropic {
			config.URL = r.model.Root()
		}
	}
	if config.Model == "" {
		config.Model = "m"
	}
	config.Logger = slog.New(slog.NewTextHandler(logWriter{r}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	a.sleep = func(ctx context.Context, d time.Duration) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.slept = append(r.slept, d)
		return ctx.Err()
	}
	t.Cleanup(a.http.CloseIdleConnections)
	r.agent = a
	return r
}

type logWriter struct{ r *rig }

func (w logWriter) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	return w.r.log.Write(p)
}

func (r *rig) emit(e agent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// emitting is a turn with the function for its events.
func emitting(turn *agent.Turn, emit func(agent.Event)) *agent.Turn {
	t := *turn
	t.Host.Emit = emit
	return &t
}

// run runs a turn.
func (r *rig) run(turn *agent.Turn) error {
	r.Helper()
	result, err := r.agent.Run(r.Context(), emitting(turn, r.emit))
	if result.Text != "" {
		r.Errorf("result %+v: the worker takes the text from the events", result)
	}
	return err
}

// must runs a turn that succeeds.
func (r *rig) must(turn *agent.Turn) {
	r.Helper()
	if err := r.run(turn); err != nil {
		r.Fatal(err)
	}
}

// story is the events as text. Consecutive texts are joined.
func (r *rig) story() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	last := session.EventType("")
	for _, e := range r.events {
		if e.Sent != nil && e.Type == session.EventText {
			continue
		}
		if again := e.Type == last; again && e.Type == session.EventText {
			b.WriteString(e.Text)
			continue
		}
		last = e.Type
		fmt.Fprintf(&b, "\n%s: ", e.Type)
		switch e.Type {
		case session.EventToolStart:
			fmt.Fprintf(&b, "%s %s %s", e.CallID, e.Name, e.Input)
		case session.EventToolEnd:
			fmt.Fprintf(&b, "%s %s%s", e.CallID, e.Output, e.Error)
		case session.EventUsage:
			fmt.Fprintf(&b, "%+v", *e.Usage)
		default:
			b.WriteString(e.Text)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

func (r *rig) told(want string) {
	r.Helper()
	if got := r.story(); got != strings.TrimSpace(want) {
		r.Errorf("events:\n%s\nwant:\n%s", got, strings.TrimSpace(want))
	}
}

// asked is the messages of the n-th request, one a line.
func (r *rig) asked(n int) string {
	r.Helper()
	requests := r.model.Requests()
	if len(requests) < n {
		r.Fatalf("there were %d requests", len(requests))
	}
	var lines []string
	for _, m := range requests[n-1].Messages {
		line := m.Role + ": " + m.Text()
		for _, u := range m.Images() {
			line += " <" + u + ">"
		}
		for _, c := range m.ToolCalls {
			line += fmt.Sprintf(" %s=%s(%s)", c.ID, c.Function.Name, c.Function.Arguments)
		}
		if m.ToolCallID != "" {
			line += " =" + m.ToolCallID
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (r *rig) wasAsked(n int, want string) {
	r.Helper()
	if got := r.asked(n); got != strings.TrimSpace(want) {
		r.Errorf("request %d:\n%s\nwant:\n%s", n, got, strings.TrimSpace(want))
	}
}

func (r *rig) requests(want int) {
	r.Helper()
	if got := len(r.model.Requests()); got != want {
		r.Errorf("%d requests, want %d", got, want)
	}
}

// says checks an error's words, and that it lacks the key.
func (r *rig) says(err error, retryable bool, words ...string) {
	r.Helper()
	if err == nil {
		r.Fatal("no error")
	}
	said := err.Error() + "\n" + agent.UserText(err)
	for _, w := range words {
		if !strings.Contains(said, w) {
			r.Errorf("%q does not say %q", said, w)
		}
	}
	if strings.Contains(err.Error(), key) || strings.Contains(fmt.Sprintf("%+v", err), key) || strings.Contains(r.log.String(), key) {
		r.Errorf("the key is in %q or in the log %s", err, r.log.String())
	}
	if errors.Is(err, agent.ErrRetryable) != retryable {
		r.Errorf("%q: retryable is %v", err, !retryable)
	}
}

func turn(texts ...string) *agent.Turn {
	t := &agent.Turn{Session: "s:1", TranscriptID: "sid", ID: "t1", Fence: 1, Attempt: 1}
	for i, text := range texts {
		t.Messages = append(t.Messages, session.Message{ID: fmt.Sprintf("m%d", i+1), Text: text})
	}
	return t
}

// shell is a tool.
func shell(name, script string) Tool {
	return Tool{Name: name, Description: "for tests", Argv: []string{"sh", "-c", script}}
}

func text(pieces ...string) modelserver.Response {
	return modelserver.Stream(modelserver.Text(pieces...))
}

func call(id, name, args string) modelserver.Response {
	return modelserver.Stream(modelserver.Call(id, name, args[:len(args)/2], args[len(args)/2:]))
}

func user(text string) session.Entry { return session.Entry{Role: session.RoleUser, Text: text} }

func assistant(text string) session.Entry {
	return session.Entry{Role: session.RoleAssistant, Text: text}
}

func used(use session.ToolUse) session.Entry {
	return session.Entry{Role: session.RoleTool, Tool: &use}
}
