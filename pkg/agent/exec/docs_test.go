package exec

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"turnstile/internal/text/strictjson"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

const schemas = "../../../docs/schemas"

// blocks are the code blocks of a page with the opening line ``` and info.
func blocks(t *testing.T, page, info string) (found []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	rest := string(data)
	for {
		_, after, ok := strings.Cut(rest, "\n```"+info+"\n")
		if !ok {
			return found
		}
		block, next, _ := strings.Cut(after, "\n```\n")
		found = append(found, block+"\n")
		rest = next
	}
}

func TestDocsExampleOfEvents(t *testing.T) {
	t.Parallel()
	found := blocks(t, "agents/jsonl.md", "jsonl")
	if len(found) != 1 {
		t.Fatalf("%d examples", len(found))
	}
	var types []session.EventType
	lines := eventLines{
		emit: func(e agent.Event) { types = append(types, e.Type) }, logger: slog.Default(), onEnd: func() {},
		steers: newSteering(nil),
	}
	if err := lines.read(strings.NewReader(found[0])); err != nil {
		t.Error(err)
	}
	if len(types) != 6 || // two pieces of text are one
		!lines.ended || lines.result.Text != "The build fails in line 17." {
		t.Errorf("events %v, result %+v", types, lines.result)
	}
}

func TestDocsExampleOfTurn(t *testing.T) {
	t.Parallel()
	found := blocks(t, "agents/jsonl.md", "json turn")
	if len(found) != 1 {
		t.Fatalf("%d examples", len(found))
	}
	var turn agent.Turn
	if err := strictjson.Decode([]byte(found[0]), &turn); err != nil {
		t.Error(err)
	}
	if len(turn.Messages) != 1 || len(turn.Messages[0].Attachments) != 1 || len(turn.History) != 3 {
		t.Errorf("%+v", turn)
	}
}

func TestDocsExampleOfSteers(t *testing.T) {
	t.Parallel()
	in, out := blocks(t, "agents/jsonl.md", "jsonl stdin"), blocks(t, "agents/jsonl.md", "jsonl steers")
	if len(in) != 1 || len(out) != 1 {
		t.Fatalf("%d and %d examples", len(in), len(out))
	}
	var got []string
	steers := newSteering(nil)
	for l := range strings.Lines(in[0]) {
		var steer steerLine
		if err := strictjson.Decode([]byte(l), &steer); err != nil || steer.Type != "steer" {
			t.Fatal(l, err)
		}
		var written strings.Builder
		accept := func() { got = append(got, steer.Message.ID) }
		if err := steers.send(agent.NewSteer(steer.Message, accept), &written); err != nil || written.String() != l {
			t.Errorf("%q, %v; the page has %q", written.String(), err, l)
		}
	}
	lines := eventLines{
		emit: func(e agent.Event) { got = append(got, string(e.Type)) }, logger: slog.Default(), onEnd: func() {},
		steers: steers,
	}
	if err := lines.read(strings.NewReader(out[0])); err != nil {
		t.Error(err)
	}
	if want := []string{"tool_start", "tool_end", "m-19", "text"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	select {
	case <-steers.ready:
	default:
		t.Error("not announced")
	}
}

func TestDocsExampleOfAsking(t *testing.T) {
	t.Parallel()
	out, in := blocks(t, "agents/jsonl.md", "jsonl ask"), blocks(t, "agents/jsonl.md", "jsonl answer")
	if len(in) != 1 || len(out) != 1 {
		t.Fatalf("%d and %d examples", len(in), len(out))
	}
	var asked agent.Question
	var written strings.Builder
	asks := &asking{ctx: t.Context(), w: &written, turn: &agent.Turn{Host: agent.Host{Ask: func(_ context.Context, q agent.Question) (session.Decision, error) {
		asked = q
		return session.Allow, nil
	}}}}
	lines := eventLines{emit: func(agent.Event) {}, logger: slog.Default(), asks: asks}
	if err := lines.read(strings.NewReader(out[0])); err != nil {
		t.Error(err)
	}
	asks.open.Wait()
	if asked.Name != "deploy" || asked.Text == "" || string(asked.Input) != `{"version":"1.4"}` || !asked.CanRemember {
		t.Errorf("%+v", asked)
	}
	if written.String() != in[0] {
		t.Errorf("%q; the page has %q", written.String(), in[0])
	}
}

func TestDocsExampleOfSteps(t *testing.T) {
	t.Parallel()
	out, in := blocks(t, "agents/exec.md", "jsonl step"), blocks(t, "agents/exec.md", "jsonl step stdin")
	if len(in) != 1 || len(out) != 1 {
		t.Fatalf("%d and %d examples", len(in), len(out))
	}
	written := make(chan string, 4)
	var got agent.StepEnd
	s := &steps{ctx: t.Context(), w: lineWriter(written), begun: map[string]agent.StepSpec{}, turn: &agent.Turn{Host: agent.Host{
		StartStep: func(_ context.Context, s agent.StepSpec) (agent.StepRecord, error) {
			return agent.StepRecord{Key: s.Key, State: agent.StepNew, Turn: "7c4a8d09-1795227266293", IdempotencyKey: "9c0e3b5c1f0c4f6f8a3c9d5e7b1a2f40"}, nil
		},
		EndStep: func(_ context.Context, _ agent.StepSpec, e agent.StepEnd) error { got = e; return nil },
	}}}
	lines := eventLines{emit: func(agent.Event) {}, logger: slog.Default(), steps: s}
	var all string
	for l := range strings.Lines(out[0]) {
		if err := lines.read(strings.NewReader(l)); err != nil {
			t.Error(err)
		}
		all += <-written
	}
	s.open.Wait()
	if string(got.Output) != `{"id":"ch_1"}` || all != in[0] {
		t.Errorf("%+v, %q; the page has %q", got, all, in[0])
	}
}

// lineWriter gets what is written, a line each.
type lineWriter chan<- string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// readSchema decodes a file of docs/schemas.
func readSchema(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(schemas, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// The schemas name the fields that the types have.
func TestDocsSchemas(t *testing.T) {
	t.Parallel()
	type schema struct {
		Properties map[string]any    `json:"properties"`
		Defs       map[string]schema `json:"$defs"`
	}
	var event, turn schema
	readSchema(t, "agent-event.json", &event)
	readSchema(t, "turn.json", &turn)
	for name, c := range map[string]struct {
		schema schema
		of     any
	}{
		"event":      {event, line{}},
		"turn":       {turn, agent.Turn{}},
		"usage":      {event.Defs["usage"], session.Usage{}},
		"steer":      {turn.Defs["steer"], steerLine{}},
		"step":       {turn.Defs["step"], agent.StepRecord{}},
		"message":    {turn.Defs["message"], session.Message{}},
		"attachment": {turn.Defs["attachment"], session.Attachment{}},
		"entry":      {turn.Defs["entry"], session.Entry{}},
		"tool":       {turn.Defs["tool"], session.ToolUse{}},
	} {
		var documented []string
		for field := range c.schema.Properties {
			documented = append(documented, field)
		}
		slices.Sort(documented)
		if want := fields(reflect.TypeOf(c.of)); !slices.Equal(documented, want) {
			t.Errorf("%s: the schema has %v, the type has %v", name, documented, want)
		}
	}
}

// Whatever type the schema and the table name is one that the adapter knows.
func TestDocsEventTypes(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties struct {
			Type struct {
				Enum []string `json:"enum"`
			} `json:"type"`
		} `json:"properties"`
	}
	readSchema(t, "agent-event.json", &schema)
	page, err := os.ReadFile("../../../docs/agents/jsonl.md")
	if err != nil {
		t.Fatal(err)
	}
	known := []session.EventType{
		session.EventText, session.EventThought, session.EventToolStart, session.EventToolEnd, session.EventTitle,
		session.EventUsage, session.EventNotice, session.EventRaw, session.EventState,
		lineReady, lineSteered, lineAsk, lineWait, lineResult, lineError,
	}
	if len(schema.Properties.Type.Enum) != len(known) {
		t.Errorf("the schema has %q", schema.Properties.Type.Enum)
	}
	for _, of := range known {
		if !slices.Contains(schema.Properties.Type.Enum, string(of)) {
			t.Errorf("%s is not in the schema", of)
		}
		if !strings.Contains(string(page), "\n| `"+string(of)+"` |") {
			t.Errorf("%s is not in the table", of)
		}
	}
}

func fields(of reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestDocsPythonAgent(t *testing.T) {
	t.Parallel()
	needPython(t)
	a := newAgent(t, Config{Command: script(t, "python", "python3"), Format: JSONL})
	text, err := runText(t.Context(), a, turn(t, "how many words"))
	if err != nil || text != "3 words, after 0 entries of history." {
		t.Errorf("%q, %v", text, err)
	}
}

// It would take minutes to read its message; a steer makes it short.
func TestDocsPythonAgentThatTakesSteers(t *testing.T) {
	t.Parallel()
	needPython(t)
	a := newAgent(t, Config{Command: script(t, "python steers", "python3"), Format: JSONL})
	tn := turn(t, strings.Repeat("long ", 1000))
	steers := make(chan agent.Steer)
	tn.Host.Steers = steers
	accepted := 0
	over := make(chan struct{})
	var offering sync.WaitGroup
	offering.Go(func() {
		select {
		case steers <- agent.NewSteer(session.Message{ID: "m2", Text: "that will do"}, func() { accepted++ }):
		case <-over:
		}
	})
	text, err := runText(t.Context(), a, tn)
	close(over)
	offering.Wait()
	if err != nil || accepted != 1 || !strings.HasSuffix(text, "long that will do ") {
		t.Errorf("accepted %d, error %v: %q", accepted, err, text)
	}
}

// script writes the only block of docs/agents/exec.md in that language to a file, and returns the
// command to run it. Not by its #!: a parallel test that forks may have it open for writing a
// little longer.
func script(t *testing.T, language, interpreter string) []string {
	t.Helper()
	found := blocks(t, "agents/exec.md", language)
	if len(found) != 1 {
		t.Fatalf("%d blocks in %s", len(found), language)
	}
	name := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(name, []byte(found[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{interpreter, name}
}

// needPython skips a test where there is no python3, and fails it in CI.
func needPython(t *testing.T) {
	t.Helper()
	if _, err := osexec.LookPath("python3"); err == nil {
		return
	}
	if on, _ := strconv.ParseBool(os.Getenv("CI")); on {
		t.Fatal("CI needs python3 for this")
	}
	t.Skip("NOT TESTED: THERE IS NO python3 ON PATH")
}
