package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
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
