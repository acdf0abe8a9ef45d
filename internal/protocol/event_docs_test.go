package protocol_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// eventSchema is the schema of a session's events, and docs/events.md.
type eventSchema struct {
	Properties map[string]struct {
		Enum []string `json:"enum"`
	} `json:"properties"`
	page  string
	valid *jsonschema.Schema
}

// eventsBlock is the only code block of docs/events.md with that opening line.
func eventsBlock(t *testing.T, info string) (block, page string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/events.md")
	expect.OK(t, err)
	parts := strings.Split(string(text), "\n```"+info+"\n")
	if len(parts) != 2 {
		t.Fatalf("docs/events.md has %d blocks %q", len(parts)-1, info)
	}
	block, _, _ = strings.Cut(parts[1], "\n```\n")
	return block, string(text)
}

func readEventSchema(t *testing.T) (s eventSchema) {
	t.Helper()
	_, s.page = eventsBlock(t, "jsonl stream")
	const file = "../../docs/schemas/session-event.json"
	text, err := os.ReadFile(file)
	expect.OK(t, err)
	expect.OK(t, json.Unmarshal(text, &s))
	s.valid, err = jsonschema.NewCompiler().Compile(file)
	expect.OK(t, err)
	return s
}

// check fails the test if a text is not an event by the schema.
func (s eventSchema) check(t testing.TB, text string) {
	t.Helper()
	event, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = s.valid.Validate(event)
	}
	if err != nil {
		t.Errorf("event %s: %v", text, err)
	}
	var e session.Event
	strict := json.NewDecoder(strings.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&e); err != nil {
		t.Errorf("event %s: %v", text, err)
	}
}

// The schema has all fields, types, statuses and modes, the table has a row for each type, and the
// example is valid. TestStatesPage checks the scripts' writes.
func TestEventSchema(t *testing.T) {
	t.Parallel()
	s := readEventSchema(t)
	var documented, have []string
	for name := range s.Properties {
		documented = append(documented, name)
	}
	slices.Sort(documented)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[session.Event]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	expect.List(t, "fields", documented, have...)
	sorted := func(list ...string) []string { return slices.Sorted(slices.Values(list)) }
	var types []string
	for _, kind := range []session.EventType{
		session.EventQueued, session.EventTurnStarted, session.EventText, session.EventThought, session.EventToolStart, session.EventToolEnd,
		session.EventTitle, session.EventUsage, session.EventRaw, session.EventSteered, session.EventQuestionAsked, session.EventQuestionAnswered,
		session.EventNotice, session.EventTurnRetry, session.EventTurnRequeued, session.EventTurnEnded, session.EventGap, session.EventReset,
		session.EventPlace,
	} {
		types = append(types, string(kind))
	}
	slices.Sort(types)
	expect.List(t, "types", sorted(s.Properties["type"].Enum...), types...)
	expect.List(t, "statuses", sorted(s.Properties["status"].Enum...), sorted(string(session.StatusDone), string(session.StatusFailed),
		string(session.StatusInterrupted), string(session.StatusExpired), string(session.StatusStopped), string(session.StatusDropped))...)
	expect.List(t, "modes", sorted(s.Properties["mode"].Enum...), sorted(string(session.ModeQueue), string(session.ModeCollect),
		string(session.ModeSteer), string(session.ModeInterrupt), string(session.ModeRollback), string(session.ModeReject))...)
	table, _, _ := strings.Cut(s.page, "```jsonl stream")
	for _, name := range append(types, s.Properties["status"].Enum...) {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("docs/events.md: %s is in no table", name)
		}
	}
	shown := map[string]bool{}
	for _, info := range []string{"jsonl stream", "jsonl otherwise"} {
		example, _ := eventsBlock(t, info)
		for line := range strings.Lines(example) {
			s.check(t, strings.TrimSpace(line))
			var e session.Event
			expect.OK(t, json.Unmarshal([]byte(line), &e))
			shown[string(e.Type)] = true
		}
	}
	expect.List(t, "types of the examples", slices.Sorted(maps.Keys(shown)), types...)
}

// The schema refuses other values than events.
func TestEventSchemaRefuses(t *testing.T) {
	t.Parallel()
	s := readEventSchema(t)
	for _, text := range []string{
		`[]`, `{}`, `{"type":"state","data":1}`, `{"type":"text","text":"no turn"}`, `{"type":"text","turn":"t"}`,
		`{"type":"queued","messages":[],"mode":"queue","position":1}`, `{"type":"queued","messages":["m"],"mode":"jump","position":1}`,
		`{"type":"turn_started","turn":"t","fence":1,"messages":["m"]}`, `{"type":"tool_start","turn":"t","name":"x"}`, `{"type":"tool_end","turn":"t"}`,
		`{"type":"usage","turn":"t"}`, `{"type":"usage","turn":"t","usage":{"input_tokens":"7"}}`, `{"type":"raw"}`, `{"type":"notice","turn":"t"}`,
		`{"type":"permission_asked","turn":"t","call_id":"1"}`, `{"type":"permission_answered","turn":"t","call_id":"1","decision":"maybe"}`,
		`{"type":"turn_ended","messages":["m"]}`, `{"type":"turn_ended","messages":["m"],"status":"over"}`,
	} {
		event, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		expect.OK(t, err)
		if s.valid.Validate(event) == nil {
			t.Errorf("%s is valid", text)
		}
	}
}
