package terminal

import (
	"testing"
	"time"

	"turnstile/pkg/session"
)

func TestNote(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e     session.Event
		own   bool
		want  string
		alert bool
	}{
		{e: session.Event{Type: "text", Text: "x"}},
		{e: session.Event{Type: "thought", Text: "x"}},
		{e: session.Event{Type: "turn_started"}},
		{e: session.Event{Type: "notice", Text: "no\nmatch\x1b[31m \u009b\u202eabc"}, want: "no match\uFFFD[31m \uFFFDabc"},
		{e: session.Event{Type: "title", Text: "The build"}, want: "title: The build"},
		{e: session.Event{Type: "queued", Mode: "queue", Position: 2}, own: true, want: "waits in the queue, position 2"},
		{e: session.Event{Type: "queued", Mode: "collect", Position: 3}, own: true, want: "waits in the queue, position 3 (collect)"},
		{e: session.Event{Type: "steered", Messages: []string{"m2"}}, own: true, want: "handed to the running turn"},
		{e: session.Event{Type: "steered", Messages: []string{"m2"}}, want: "the turn took in message m2"},
		{e: session.Event{Type: "turn_started", Resume: "crash"}, want: "the turn is resumed after its worker's death, or its lost connection to Redis"},
		{e: session.Event{Type: "turn_started", Resume: "restart_timeout"}, want: "the turn is resumed after its worker's restart"},
		{e: session.Event{Type: "turn_started", Reset: "suspended"}, want: "a new conversation begins: the last one was interrupted too often", alert: true},
		{e: session.Event{Type: "turn_requeued", Reason: "shutdown_timeout"}, want: "the turn was interrupted by its worker's shutdown; its message stays", alert: true},
		{e: session.Event{Type: "turn_requeued", Reason: "lease_lost"}, want: "the turn was interrupted by a lease that its worker could not renew in time; its message stays", alert: true},
		{e: session.Event{Type: "turn_retry", Attempt: 2, Error: "flaky", RetryIn: session.Millis(1500 * time.Millisecond)}, want: "attempt 2 failed: flaky; again in 1.5s", alert: true},
		{e: session.Event{Type: "notice", Text: "This worker drains.\n"}, want: "This worker drains."},
		{e: session.Event{Type: "of another version", Text: "x"}},
	} {
		if text, alert := note(c.e, c.own); text != c.want || alert != c.alert {
			t.Errorf("%+v: %q, %v; want %q", c.e, text, alert, c.want)
		}
	}
}

func TestEnding(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]session.Outcome{
		"failed":                         {Status: "failed"},
		"failed: exit status 2 and more": {Status: "failed", Error: "exit status 2\nand more"},
		"stopped by user":                {Status: "stopped", Error: "stopped by user"},
		"interrupted: rolled back by a newer message":   {Status: "interrupted", Error: "rolled back by a newer message"},
		"dropped: more than 2 messages were waiting":    {Status: "dropped", Error: "dropped: more than 2 messages were waiting"},
		"expired: it waited 2s, at most 1s was allowed": {Status: "expired", Error: "expired: it waited 2s, at most 1s was allowed"},
	} {
		if got := Ending(end); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
