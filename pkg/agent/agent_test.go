package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"turnstile/pkg/session"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		turn Turn
		want string
	}{
		{Turn{}, ""},
		{Turn{Messages: []Message{{Text: " as it is\n"}}}, " as it is\n"},
		{Turn{Note: "[note]", Messages: []Message{{Text: "a"}}}, "[note]\n\na"},
		{Turn{Note: "[note]", Messages: []Message{{Text: "a"}, {Text: "b"}}}, "[note]\n\na\n\nb"},
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
	if !IsRetryable(marked) || !errors.Is(marked, base) || marked.Error() != "turn: busy" {
		t.Errorf("%v is not the marked error", marked)
	}
	if IsRetryable(base) || IsRetryable(nil) || Retryable(nil) != nil {
		t.Error("only what was marked is retryable")
	}
}

// once is a Warmer and its only warm agent.
type once struct {
	story []string
	fails error
}

func (o *once) Warm(context.Context, Turn) (Warm, error) {
	o.story = append(o.story, "built")
	return o, o.fails
}

func (o *once) Signature() string { return "" }

func (o *once) Run(_ context.Context, turn Turn, emit func(Event)) (Result, error) {
	o.story = append(o.story, "run")
	emit(Event{Type: session.EventText, Text: "a"})
	return Result{Text: turn.Session}, errors.New("at the end")
}

func (o *once) Close() error {
	o.story = append(o.story, "closed")
	return errors.New("in closing")
}

func TestRunOnce(t *testing.T) {
	t.Parallel()
	var o once
	emitted := 0
	result, err := RunOnce(t.Context(), &o, Turn{Session: "s"}, func(Event) { emitted++ })
	if result.Text != "s" || err == nil || err.Error() != "at the end" || emitted != 1 || fmt.Sprint(o.story) != "[built run closed]" {
		t.Errorf("%+v, %v, %d events, %v", result, err, emitted, o.story)
	}
	o = once{fails: Retryable(errors.New("no"))}
	if _, err := RunOnce(t.Context(), &o, Turn{}, nil); !IsRetryable(err) || fmt.Sprint(o.story) != "[built]" {
		t.Errorf("%v, %v", err, o.story)
	}
}

type fixedLease time.Time

func (l fixedLease) Deadline() time.Time { return time.Time(l) }

func TestLeaseTravelsInTheContext(t *testing.T) {
	t.Parallel()
	if _, ok := LeaseFrom(t.Context()); ok {
		t.Error("a lease out of nowhere")
	}
	at := time.Now()
	ctx, cancel := context.WithCancel(WithLease(t.Context(), fixedLease(at)))
	defer cancel()
	if l, ok := LeaseFrom(ctx); !ok || !l.Deadline().Equal(at) {
		t.Error("the lease got lost")
	}
	if _, ok := LeaseFrom(WithLease(ctx, nil)); ok {
		t.Error("no lease is a lease")
	}
}
