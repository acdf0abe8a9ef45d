package exec

import (
	"context"
	"errors"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// asker asks all its questions, and writes the decisions.
const asker = `read turn; echo '{"type":"ask","id":"a","name":"run make"}'; echo '{"type":"ask","id":"b","name":"rm"}'
read one; read two; printf '%s %s' "$one" "$two" >&2; exit 3`

// A command's questions reach the user, and the decisions its stdin.
func TestAsk(t *testing.T) {
	t.Parallel()
	in := turn(t, "hi")
	in.Host.Ask = func(_ context.Context, q agent.Question) (session.Decision, error) {
		return map[string]session.Decision{"rm": session.Always, "run make": session.Deny}[q.Name], nil
	}
	_, err := runText(t.Context(), newAgent(t, Config{Command: shell(asker), Format: JSONL}), in)
	for _, want := range []string{`{"type":"answer","id":"a","allowed":false,"remember":false}`, `{"type":"answer","id":"b","allowed":true,"remember":true}`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

// If nobody can be asked, the decision is deny.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	_, err := runText(t.Context(), newAgent(t, Config{Command: shell(asker), Format: JSONL}), turn(t, "hi"))
	if err == nil || strings.Count(err.Error(), `"allowed":false`) != 2 {
		t.Errorf("%v", err)
	}
}

// A question without a decision does not block the turn's end, nor an interrupt.
func TestOpenQuestions(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`read turn; echo '{"type":"ask","id":"a","name":"x"}'; echo '{"type":"result","text":"done"}'`: "done",
		`read turn; echo '{"type":"ask","id":"a","name":"x"}'; read answer`:                            "interrupted",
	} {
		asked, cancelled := make(chan struct{}), errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		in := turn(t, "hi")
		in.Host.Ask = func(ctx context.Context, _ agent.Question) (session.Decision, error) {
			close(asked)
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
		if want == "interrupted" {
			go func() {
				<-asked
				cancel(cancelled)
			}()
		}
		result, err := newAgent(t, Config{Command: shell(script), Format: JSONL, Grace: -1}).Run(ctx, in)
		if result.Text != "done" && !errors.Is(err, cancelled) || (want == "done") != (err == nil) {
			t.Errorf("%s: %+v, %v", script, result, err)
		}
		cancel(nil)
	}
}

// A command that asks without end cannot fill its worker with questions.
func TestEndlessQuestions(t *testing.T) {
	t.Parallel()
	in := turn(t, "hi")
	in.Host.Ask = func(ctx context.Context, _ agent.Question) (session.Decision, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	_, err := runText(t.Context(), newAgent(t, Config{Command: shell(`exec yes '{"type":"ask","id":"a","name":"x"}'`), Format: JSONL, Grace: -1}), in)
	if want := "line 65 of the command's output: more than 64 questions are open"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestBadAsk(t *testing.T) {
	t.Parallel()
	_, err := runText(t.Context(), newAgent(t, Config{Command: shell(`echo '{"type":"ask","id":"a"}'; sleep 100`), Format: JSONL, Grace: -1}), turn(t, "hi"))
	if err == nil || !strings.Contains(err.Error(), "line 1 of the command's output: an ask needs id and name") {
		t.Errorf("%v", err)
	}
}
