package exec

import (
	"errors"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
)

// A panic while a command's output is handled ends the command and its turn, and not the worker,
// also for plain text and for many pieces at once.
func TestAPanicEndsTheCommandAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"text":            {Command: shell("echo hello; sleep 60")},
		"text at its end": {Command: shell("printf hello")},
		"an event":        {Command: shell(`echo '{"type":"notice","text":"hello"}'; sleep 60`), Format: JSONL},
		"pieces of text":  {Command: shell(`echo '{"type":"text","text":"hello"}'; sleep 60`), Format: JSONL},
		"the last piece":  {Command: shell(`printf '{"type":"text","text":"hello"}'`), Format: JSONL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Grace = 100 * time.Millisecond
			turn := turn(t, "hello")
			_, err := newAgent(t, c).Run(t.Context(), emitting(turn, func(agent.Event) { panic("at its words") }))
			if err == nil || !strings.Contains(err.Error(), "panicked: at its words") || errors.Is(err, agent.ErrRetryable) {
				t.Errorf("it ends with %v", err)
			}
			assertGone(t, turn.ID, nil)
		})
	}
}
