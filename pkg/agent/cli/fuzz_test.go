package cli

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"turnstile/internal/process/command"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// addRecorded adds the recorded streams of one program, or of all, each as a seed.
func addRecorded(f *testing.F, program string) {
	f.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", program, "*.jsonl"))
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		expect.OK(f, err)
		f.Add(string(text))
	}
}

// story are the effects of a program's lines on a turn.
type story struct {
	events         []agent.Event
	state          state
	failure, noise string
	ended          bool
	err            string
}

func replay(t *testing.T, kind Kind, often, text string) (got story) {
	t.Helper()
	p := programs[kind]
	s := &stream{
		emit: func(e agent.Event) { got.events = append(got.events, e) }, logger: slog.New(slog.DiscardHandler), often: often,
		state: state{Agent: kind}, model: "m",
	}
	s.decoder = p.decoder(s)
	err := command.Lines(strings.NewReader(text), s.logger, s.line)
	if err != nil {
		got.err = err.Error()
		expect.Line(t, "the error", got.err, expect.ErrorMost)
	}
	got.state, got.failure, got.noise, got.ended = s.state, s.failure, s.noise, s.ended
	return got
}

// decodes fails the test unless a program's lines become events that can be stored, and its session an
// ID that can be passed on. The shortcut for frequent lines changes nothing.
func decodes(t *testing.T, kind Kind, text string) {
	t.Helper()
	got := replay(t, kind, programs[kind].often, text)
	if strings.Contains(got.err, "panic") {
		t.Errorf("%s", got.err)
	}
	for _, e := range got.events {
		if _, err := json.Marshal(e); err != nil {
			t.Errorf("%+v cannot be stored: %v", e, err)
		}
		switch {
		case e.Type == session.EventToolStart && (e.Name == "" || e.CallID == ""),
			e.Type == session.EventToolEnd && (e.CallID == "" || (e.Error == "") == (e.Output == nil)),
			e.Type == session.EventUsage && e.Usage == nil:
			t.Errorf("%+v", e)
		case e.Type == session.EventNotice:
			if len(e.Text) > maxSentence+3 {
				t.Errorf("a notice of %d bytes", len(e.Text))
			}
		case e.Type == session.EventState:
			if stored := stateOf(kind, e.Data); stored.Session == "" {
				t.Errorf("the state %s is not read", e.Data)
			}
		}
	}
	if id := got.state.Session; id != "" && (!anID.MatchString(id) || id[0] == '-') {
		t.Errorf("the session's id %q", id)
	}
	if said := sentence(got.failure); len(said) > maxSentence+3 {
		t.Errorf("a failure of %d bytes", len(said))
	}
	twice := func(line string) bool { return strings.Count(strings.ToLower(line), `"type"`) > 1 } // the last counts, in any case
	if !slices.ContainsFunc(strings.Split(text, "\n"), twice) {
		if plain := replay(t, kind, "", text); !reflect.DeepEqual(plain, got) {
			t.Errorf("with the shortcut %+v, without %+v", got, plain)
		}
	}
}

func FuzzClaude(f *testing.F) {
	addRecorded(f, "claude")
	f.Add(`{"type":"result","total_cost_usd":1e308,"usage":{"input_tokens":-9223372036854775808}}` + "\n" + `{"type":"result","total_cost_usd":-1e308}`)
	f.Add(`{"type":"assistant","message":{"content":[{"type":"x_tool_use","id":"1"},{"type":"tool_result","tool_use_id":"1","content":{"type":"x_error"}},5]}}`)
	f.Fuzz(func(t *testing.T, text string) { decodes(t, Claude, text) })
}

func FuzzCodex(f *testing.F) {
	addRecorded(f, "codex")
	f.Add(`{"type":"item.completed","item":{"id":"1","type":"error","message":"` + strings.Repeat(`{\"error\":`, 500) + `"}}`)
	f.Add(`{"type":"thread.started","thread_id":"--x"}` + "\n" + `{"type":"item.started","item":{"type":"mcp_tool_call"}}`)
	f.Fuzz(func(t *testing.T, text string) { decodes(t, Codex, text) })
}

func FuzzGemini(f *testing.F) {
	addRecorded(f, "gemini")
	f.Add(`{"type":"message","role":5}` + "\n" + `{"type":"result","status":"error","error":{"message":"{\"message\":\"in\"}"}}`)
	f.Fuzz(func(t *testing.T, text string) { decodes(t, Gemini, text) })
}

// A rollout that the agent has written is read in full lines only, within its bounds, and each call that
// it reports becomes a tool that can be stored, once.
func FuzzRollout(f *testing.F) {
	names, err := filepath.Glob("testdata/codex/*.rollout")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		expect.OK(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"payload":{"type":"function_call","call_id":"1","name":"exec_command","arguments":"{\"cmd\":\"ls\"}"}}
{"payload":{"type":"function_call_output","call_id":"1","output":"Process exited with code 99999999999999999999\nOutput:\nx"}}
{"payload":{"type":"item_completed","item":{"type":"AgentMessage","id":"2"}}}
`))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "rollout")
		r := newRollout(command.Spec{}, "")
		seen := map[string]int{}
		for _, part := range [][]byte{text[:len(text)/2], text} {
			expect.OK(t, os.WriteFile(path, part, 0o600))
			r.home, r.root, r.file = filepath.Dir(path), filepath.Dir(path), path
			if !r.read(path) {
				return
			}
			if r.at > int64(len(part)) || r.budget < 0 {
				t.Errorf("it is at %d of %d bytes, and may read %d more", r.at, len(part), r.budget)
			}
			for _, call := range r.missing(0) {
				seen[call.id]++
				name, input := call.tool()
				if _, err := json.Marshal(agent.Event{Name: name, Input: input}); err != nil {
					t.Errorf("%+v cannot be stored: %v", call, err)
				}
				if _, failure := call.failure.result(); failure == "" {
					t.Errorf("%+v has not failed", call)
				}
			}
		}
	})
}

// A program's error is short, and without the colors of a terminal.
func FuzzSentence(f *testing.F) {
	for _, text := range []string{`HTTP 400: {"error":{"message":"{\"message\":\"too long\"}"}} (again)`, "\x1b[31mred\x1b[0m {", `{"message":""}`, "}{"} {
		f.Add(text)
	}
	f.Add(strings.Repeat(`{"error":`, 9000) + `{"message":"in"}` + strings.Repeat("}", 9000))
	f.Fuzz(func(t *testing.T, text string) {
		if said := sentence(text); len(said) > maxSentence+3 || strings.Contains(said, "\x1b[31m") {
			t.Errorf("%d bytes: %.200q", len(said), said)
		}
	})
}
