package exec

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// waiter waits for a value, a late one and a time, and writes what it has read.
const waiter = `read turn; echo '{"type":"wait","key":"payment:42","timeout_ms":86400000}'; read began; read paid
echo '{"type":"wait","key":"late","timeout_ms":1}'; read also; read late
echo '{"type":"wait","key":"night","timeout_ms":1,"timer":true}'; read night
printf '%s\n%s\n%s %s' "$began" "$paid" "$late" "$night" >&2; exit 3`

// A command's waits reach the worker, and their ends its stdin, as the page has them.
func TestWait(t *testing.T) {
	t.Parallel()
	in := turn(t, "hi")
	in.Host.Wait = func(ctx context.Context, w agent.Wait) (json.RawMessage, error) {
		if !w.Timer {
			expect.OK(t, w.Begin(ctx, "5e884898da28047151d0e56f8dc62927"))
		}
		switch {
		case w.Timer && w.Key == "night" && w.Timeout == time.Millisecond:
			return nil, nil
		case w.Key == "payment:42" && w.Timeout == 24*time.Hour:
			return json.RawMessage(`{"paid":true}`), nil
		}
		return nil, agent.ErrNoValue
	}
	_, err := runText(t.Context(), newAgent(t, Config{Command: shell(waiter), Format: JSONL}), in)
	page := blocks(t, "agents/exec.md", "jsonl wait stdin")
	for _, want := range append(page, `{"type":"value","key":"late","error":"no value was given in time"} {"type":"value","key":"night"}`) {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
	if len(page) != 1 {
		t.Errorf("the page has %d examples", len(page))
	}
	_, err = runText(t.Context(), newAgent(t, Config{Command: shell(`read turn; echo '{"type":"wait"}'; read x`), Format: JSONL}), turn(t, "hi"))
	if err == nil || !strings.Contains(err.Error(), "a wait needs a key") {
		t.Errorf("a wait without a key: %v", err)
	}
}

// The command of a parked turn is asked to end, and its run is parked, however it ends: at once, as a failure,
// after more lines, or never.
func TestParkedCommandEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]string{
		"exits": "exit 0", "fails": "exit 1", "writes": `echo '{"type":"result","text":"done"}'; echo nonsense`, "stays": "sleep 1000", "waits": "read more",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, line := range []string{`{"type":"wait","key":"a"}`, `{"type":"ask","id":"1","name":"pay","key":"a"}`} {
				in, keys := turn(t, "hi"), make(chan string, 1)
				in.Host.Wait = func(_ context.Context, w agent.Wait) (json.RawMessage, error) {
					keys <- w.Key
					return nil, agent.ErrParked
				}
				in.Host.Ask = func(_ context.Context, q agent.Question) (session.Decision, error) {
					keys <- q.Key
					return "", agent.ErrParked
				}
				read := filepath.Join(t.TempDir(), "read")
				script := `read turn; echo '` + line + `'; read parked; echo "$parked" >` + read + `; ` + end
				_, err := newAgent(t, Config{Command: shell(script), Format: JSONL, Grace: time.Second}).Run(t.Context(), in)
				if !errors.Is(err, agent.ErrParked) {
					t.Errorf("%s: %v", line, err)
				}
				expect.Equal(t, "key", <-keys, "a")
				last, err := os.ReadFile(read)
				expect.OK(t, err)
				expect.Equal(t, "the command has read", string(last), `{"type":"parked"}`+"\n")
			}
		})
	}
}

// A run that has ended by itself is not parked.
func TestResultBeforeThePark(t *testing.T) {
	t.Parallel()
	in := turn(t, "hi")
	in.Host.Wait = func(ctx context.Context, _ agent.Wait) (json.RawMessage, error) {
		<-ctx.Done()
		return nil, agent.ErrParked
	}
	result, err := newAgent(t, Config{Command: shell(`read turn; echo '{"type":"wait","key":"a"}'; echo '{"type":"result","text":"done"}'`), Format: JSONL}).Run(t.Context(), in)
	expect.OK(t, err)
	expect.Equal(t, "reply", result.Text, "done")
}

// What fails in another way than by the time ends the run: the command cannot know what has happened.
func TestWaitThatFails(t *testing.T) {
	t.Parallel()
	full := errors.New("Redis is full")
	for _, line := range []string{`{"type":"wait","key":"a"}`, `{"type":"ask","id":"1","name":"pay"}`} {
		in := turn(t, "hi")
		in.Host.Wait = func(context.Context, agent.Wait) (json.RawMessage, error) { return nil, full }
		in.Host.Ask = func(context.Context, agent.Question) (session.Decision, error) { return "", full }
		_, err := newAgent(t, Config{Command: shell(`read turn; echo '` + line + `'; read more; echo '{"type":"result","text":"not paid"}'`), Format: JSONL}).Run(t.Context(), in)
		if !errors.Is(err, full) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Waits are in the order of their lines, so that a later run has the same.
func TestWaitsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	in, keys := turn(t, "hi"), make(chan string, 100)
	in.Host.Wait = func(_ context.Context, w agent.Wait) (json.RawMessage, error) {
		keys <- w.Key
		return nil, nil
	}
	script := `read turn; for i in 1 2 3 4 5 6 7 8 9; do echo "{\"type\":\"wait\",\"key\":\"$i\"}"; done
for i in 1 2 3 4 5 6 7 8 9; do read value; done; echo '{"type":"result","text":"done"}'`
	_, err := newAgent(t, Config{Command: shell(script), Format: JSONL}).Run(t.Context(), in)
	expect.OK(t, err)
	for i := range 9 {
		expect.Equal(t, "wait", <-keys, string(rune('1'+i)))
	}
}

// The secret is sent when a step begins whose line came after it.
func TestSecretIsSentInAStep(t *testing.T) {
	t.Parallel()
	waits, began, begins := make(chan agent.Wait), make(chan string, 9), make(chan struct{})
	s := &steps{ctx: t.Context(), w: lineWriter(began), begun: map[string]agent.StepSpec{}, turn: &agent.Turn{Host: agent.Host{
		StartStep: func(ctx context.Context, s agent.StepSpec) (agent.StepRecord, error) {
			expect.OK(t, s.Permit(ctx))
			if s.Key == "before" {
				<-begins
			}
			return agent.StepRecord{Key: s.Key}, nil
		},
	}}}
	a := &asking{ctx: t.Context(), w: io.Discard, steps: s, turn: &agent.Turn{Host: agent.Host{
		Wait: func(_ context.Context, w agent.Wait) (json.RawMessage, error) { waits <- w; return nil, nil },
	}}}
	expect.OK(t, s.start(line{Key: "before"}))
	expect.OK(t, a.wait(line{Key: "payment"}))
	w := expect.Received(t, "the wait", waits)
	expect.OK(t, w.Begin(t.Context(), "5e88"))
	close(begins)
	expect.Received(t, "the step before", began)
	select {
	case <-w.Sent:
		t.Error("sent before a step")
	default:
	}
	expect.OK(t, s.start(line{Key: "invoice"}))
	select {
	case <-w.Sent:
	case <-time.After(expect.Patience):
		t.Error("not sent")
	}
	s.open.Wait()
	a.open.Wait()
	expect.OK(t, a.wait(line{Key: "night", Timer: true}))
	if w := expect.Received(t, "the timer", waits); w.Sent != nil || w.Begin != nil {
		t.Error("a timer has a secret")
	}
	a.open.Wait()
}
