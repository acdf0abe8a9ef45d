package exec

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// printing is an agent that writes the text and, unless the turn ends earlier, waits for the end of
// its stdin.
func printing(text string) []string {
	return []string{"sh", "-c", `printf '%s' "$1"; cat >/dev/null`, "sh", text}
}

func TestJSONLEvents(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Format: JSONL, Command: printing(strings.Join([]string{
		`{"type":"thought","text":"hm"}`,
		``,
		`{"type":"text","text":"one","more":"is ignored"}` + "\r",
		`{"type":"text","text":""}`,
		`{"type":"tool_start","name":"grep","call_id":"1","input":{"a":1}}`,
		`{"type":"tool_end","call_id":"1","output":"x"}`,
		`{"type":"tool_end","call_id":"2","error":"failed"}`,
		`{"type":"tool_end","call_id":"3","output":null}`,
		`{"type":"result","text":"all"}`,
		`{"type":"text","text":"too late"}`,
		``,
	}, "\n"))})
	var got []agent.Event
	result, err := a.Run(t.Context(), emitting(turn(t, ""), func(e agent.Event) { got = append(got, e) }))
	if err != nil || result.Text != "all" {
		t.Errorf("result %+v, error %v", result, err)
	}
	want := []agent.Event{
		{Type: session.EventThought, Text: "hm"},
		{Type: session.EventText, Text: "one"},
		{Type: session.EventToolStart, Name: "grep", CallID: "1", Input: json.RawMessage(`{"a":1}`)},
		{Type: session.EventToolEnd, CallID: "1", Output: json.RawMessage(`"x"`)},
		{Type: session.EventToolEnd, CallID: "2", Error: "failed"},
		{Type: session.EventToolEnd, CallID: "3", Output: json.RawMessage(`null`)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestJSONLWithoutResult(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Format: JSONL, Command: shell(`printf '{"type":"text","text":"one"}\n{"type":"text","text":"two"}'`)})
	text, err := runText(t.Context(), a, turn(t, ""))
	if err != nil || text != "onetwo" {
		t.Errorf("text %q, error %v", text, err)
	}
}

func TestJSONLErrorLine(t *testing.T) {
	t.Parallel()
	for line, retryable := range map[string]bool{
		`{"type":"error","message":"no model"}`:                   false,
		`{"type":"error","message":"no model","retryable":true}`:  true,
		`{"type":"error","message":"no model","retryable":false}`: false,
	} {
		a := newAgent(t, Config{Format: JSONL, Command: printing(line + "\n")})
		_, err := runText(t.Context(), a, turn(t, ""))
		if err == nil || err.Error() != "no model" || errors.Is(err, agent.ErrRetryable) != retryable {
			t.Errorf("%s: %v, retryable %v", line, err, errors.Is(err, agent.ErrRetryable))
		}
	}
}

func TestJSONLBadLines(t *testing.T) {
	t.Parallel()
	for bad, want := range map[string]string{
		`hello`:                               "not a JSON object",
		`[1]`:                                 "not a JSON object",
		`{"type":"text","text":5}`:            "not a JSON object with an event",
		`{"type":"text","text":"a"} x`:        "not a JSON object",
		`{}`:                                  "no type",
		`{"type":"dance"}`:                    `unknown type "dance"`,
		`{"type":"tool_start","name":"x"}`:    "call_id",
		`{"type":"tool_start","call_id":"x"}`: "name",
		`{"type":"tool_end"}`:                 "call_id",
		`{"type":"tool_end","call_id":"1","output":1,"error":"x"}`: "not both",
		`{"type":"error"}`:                      "message",
		"{\"type\":\"text\",\"text\":\"\xff\"}": "not UTF-8",
		strings.Repeat("x", 100_000):            "not a JSON object",
	} {
		a := newAgent(t, Config{Format: JSONL, Command: shell(
			"printf '%s\\n' '{\"type\":\"text\",\"text\":\"a\"}' '' '" + bad + "'; sleep 1000")})
		text, err := runText(t.Context(), a, turn(t, ""))
		if err == nil || !strings.Contains(err.Error(), "line 3 ") || !strings.Contains(err.Error(), want) || errors.Is(err, agent.ErrRetryable) {
			t.Errorf("%.60s: %v; want line 3 and %q", bad, err, want)
		}
		if text != "a" {
			t.Errorf("%.60s: text %q", bad, text)
		}
	}
}

// The error of a command that dies in the middle of a line is its death.
func TestJSONLCutLine(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`printf '{"type":"te'; echo why >&2; exit 3`: "exit status 3: why",
		`printf '{"type":"te'`:                       "line 1 ",
	} {
		a := newAgent(t, Config{Format: JSONL, Command: shell(script)})
		if _, err := runText(t.Context(), a, turn(t, "")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
}

func TestJSONLExitCodeCountsAfterAResult(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Format: JSONL, Command: shell(`echo '{"type":"result","text":"x"}'; cat >/dev/null; exit 4`)})
	if _, err := runText(t.Context(), a, turn(t, "")); err == nil || err.Error() != "exit status 4" {
		t.Error(err)
	}
}

func TestJSONLLingersAfterItsResult(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Format: JSONL, Grace: 10 * time.Millisecond,
		Command: shell(`trap "" INT; echo '{"type":"result","text":"x"}'; sleep 1000`)})
	result, err := a.Run(t.Context(), turn(t, ""))
	if err != nil || result.Text != "x" {
		t.Errorf("result %+v, error %v", result, err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format Format
		script string
		want   string
	}{
		"reply":  {Text, `head -c 8388609 /dev/zero; sleep 1000`, "more than 8 MiB"},
		"line":   {JSONL, `head -c 8388610 /dev/zero; sleep 1000`, "line 1 of the command's output is longer than 8 MiB"},
		"output": {JSONL, `yes "$(printf '%01000d.' 0 | tr 0. ' \r')"`, "more than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, Config{Format: c.format, Command: shell(c.script)})
			_, err := a.Run(t.Context(), turn(t, ""))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	long := strings.Repeat("x", command.MaxLine-100)
	a := newAgent(t, Config{Format: JSONL, Command: shell(
		`printf '{"type":"text","text":"'; head -c 8388508 /dev/zero | tr '\0' x; echo '"}'`)})
	if text, err := runText(t.Context(), a, turn(t, "")); err != nil || text != long {
		t.Errorf("a line within the limit: %d bytes, %v", len(text), err)
	}
}

// Events before the interrupt stay. An incomplete line is not another error.
func TestJSONLInterrupted(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	a := newAgent(t, Config{Format: JSONL, Command: shell(`printf '{"type":"text","text":"a"}\n{"type":"te'; exec sleep 1000`)})
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := a.Run(ctx, emitting(turn(t, ""), func(agent.Event) { cancel(cause) }))
	if !errors.Is(err, cause) {
		t.Error(err)
	}
}
