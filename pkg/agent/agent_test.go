package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"turnstile/pkg/session"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		turn *Turn
		want string
	}{
		{&Turn{}, ""},
		{&Turn{Messages: []session.Message{{Text: " as it is\n"}}}, " as it is\n"},
		{&Turn{Note: "[note]", Messages: []session.Message{{Text: "a"}}}, "[note]\n\na"},
		{&Turn{Note: "[note]", Messages: []session.Message{{Text: "a"}, {Text: "b"}}}, "[note]\n\na\n\nb"},
	} {
		if got := c.turn.Text(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.turn, got, c.want)
		}
	}
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	base := errors.New("busy")
	marked := fmt.Errorf("turn: %w", Retryable(base))
	if !errors.Is(marked, ErrRetryable) || !errors.Is(marked, base) || marked.Error() != "turn: busy" {
		t.Errorf("%v is not the marked error", marked)
	}
	if errors.Is(base, ErrRetryable) || Retryable(nil) != nil {
		t.Error("only what was marked is retryable")
	}
	unable := fmt.Errorf("turn: %w", Unavailable(base))
	if !errors.Is(unable, ErrUnavailable) || !errors.Is(unable, ErrRetryable) || !errors.Is(unable, base) || unable.Error() != "turn: busy" {
		t.Errorf("%v is not the marked error", unable)
	}
	if errors.Is(marked, ErrUnavailable) || Unavailable(nil) != nil {
		t.Error("what is retryable is unavailable")
	}
}

// once is a Warmer and its only warm agent.
type once struct {
	story []string
	fails error
}

func (o *once) Warm(context.Context, *Turn) (Warm, error) {
	o.story = append(o.story, "built")
	return o, o.fails
}

func (o *once) Signature() string { return "" }

func (o *once) Run(_ context.Context, turn *Turn) (Result, error) {
	o.story = append(o.story, "run")
	turn.Emit(Event{Type: session.EventText, Text: "a"})
	return Result{Text: turn.Session}, errors.New("at the end")
}

func (o *once) Ended() bool { return false }

func (o *once) Close() error {
	o.story = append(o.story, "closed")
	return errors.New("in closing")
}

func TestRunOnce(t *testing.T) {
	t.Parallel()
	var o once
	emitted := 0
	result, err := RunOnce(t.Context(), &o, &Turn{Session: "s", Host: Host{Emit: func(Event) { emitted++ }}})
	if result.Text != "s" || err == nil || err.Error() != "at the end" || emitted != 1 || fmt.Sprint(o.story) != "[built run closed]" {
		t.Errorf("%+v, %v, %d events, %v", result, err, emitted, o.story)
	}
	o = once{fails: Retryable(errors.New("no"))}
	if _, err := RunOnce(t.Context(), &o, &Turn{}); !errors.Is(err, ErrRetryable) || fmt.Sprint(o.story) != "[built]" {
		t.Errorf("%v, %v", err, o.story)
	}
}

// A Turn without a host can be run.
func TestNoHost(t *testing.T) {
	t.Parallel()
	var turn Turn
	turn.Emit(Event{Type: session.EventText, Text: "a"})
	if d, err := turn.Ask(t.Context(), Question{}); d != session.Deny || err != nil {
		t.Errorf("%s, %v", d, err)
	}
	if turn.Steers() != nil || !turn.LeaseEnd().IsZero() {
		t.Error("steers or a lease out of nowhere")
	}
}

func TestSteerIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	n := 0
	s := NewSteer(session.Message{ID: "m2"}, func() { n++ })
	other := s
	s.Accept()
	other.Accept()
	if n != 1 || s.Message.ID != "m2" {
		t.Errorf("accepted %d times", n)
	}
	Steer{}.Accept()
	NewSteer(session.Message{}, nil).Accept()
}

// Adapters encode the turn as JSON.
func TestSteersAreNoPartOfTheTurnsJSON(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(&Turn{Host: Host{Steers: make(chan Steer)}})
	if err != nil || strings.Contains(strings.ToLower(string(data)), "steer") {
		t.Errorf("%s, %v", data, err)
	}
}
