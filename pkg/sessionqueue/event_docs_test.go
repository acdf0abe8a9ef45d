package sessionqueue_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	sq "turnstile/pkg/sessionqueue"
)

// eventSchema is what docs/events.md says of a session's events.
type eventSchema struct {
	Properties map[string]struct {
		Enum []string `json:"enum"`
	} `json:"properties"`
	AllOf []struct {
		If struct {
			Properties struct {
				Type struct {
					Const string `json:"const"`
				} `json:"type"`
			} `json:"properties"`
		} `json:"if"`
		Then struct {
			Required []string `json:"required"`
		} `json:"then"`
	} `json:"allOf"`

	page string
}

// eventsBlock is the only code block of docs/events.md with that opening line.
func eventsBlock(t *testing.T, info string) (block, page string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/events.md")
	must(t, err)
	parts := strings.Split(string(text), "\n```"+info+"\n")
	if len(parts) != 2 {
		t.Fatalf("docs/events.md has %d blocks %q", len(parts)-1, info)
	}
	block, _, _ = strings.Cut(parts[1], "\n```\n")
	return block, string(text)
}

func readEventSchema(t *testing.T) (s eventSchema) {
	t.Helper()
	block, page := eventsBlock(t, "json session")
	must(t, json.Unmarshal([]byte(block), &s))
	s.page = page
	return s
}

// check fails the test if a text is no event by the schema.
func (s eventSchema) check(t testing.TB, text string) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Errorf("event %s: %v", text, err)
		return
	}
	var e sq.Event
	strict := json.NewDecoder(bytes.NewReader([]byte(text)))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&e); err != nil {
		t.Errorf("event %s: %v", text, err)
	}
	for name, value := range map[string]string{"type": e.Type, "status": string(e.Status), "mode": string(e.Mode)} {
		if (value != "" || name == "type") && !slices.Contains(s.Properties[name].Enum, value) {
			t.Errorf("event %s: the schema does not know this %s", text, name)
		}
	}
	for _, of := range s.AllOf {
		if of.If.Properties.Type.Const != e.Type {
			continue
		}
		for _, field := range of.Then.Required {
			if fields[field] == nil {
				t.Errorf("event %s: it lacks %s", text, field)
			}
		}
	}
}

// The schema has the fields, types, statuses and modes that there are, the table
// has a row for each type, and the example is valid. TestStatesPage checks what the
// scripts write.
func TestEventSchema(t *testing.T) {
	t.Parallel()
	s := readEventSchema(t)
	var documented, have []string
	for name := range s.Properties {
		documented = append(documented, name)
	}
	slices.Sort(documented)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[sq.Event]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	equalList(t, "fields", documented, have...)
	sorted := func(list ...string) []string { return slices.Sorted(slices.Values(list)) }
	types := sorted(sq.EventQueued, sq.EventTurnStarted, string(agent.EventText), string(agent.EventThought), string(agent.EventToolStart),
		string(agent.EventToolEnd), string(agent.EventTitle), string(agent.EventUsage), string(agent.EventRaw), sq.EventSteered,
		sq.EventPermissionAsked, sq.EventPermissionAnswered, sq.EventNotice, sq.EventTurnRetry, sq.EventTurnRequeued, sq.EventTurnEnded)
	equalList(t, "types", sorted(s.Properties["type"].Enum...), types...)
	equalList(t, "statuses", sorted(s.Properties["status"].Enum...), sorted(string(sq.StatusDone), string(sq.StatusFailed),
		string(sq.StatusInterrupted), string(sq.StatusExpired), string(sq.StatusStopped), string(sq.StatusDropped))...)
	equalList(t, "modes", sorted(s.Properties["mode"].Enum...), sorted(string(session.ModeQueue), string(session.ModeCollect),
		string(session.ModeSteer), string(session.ModeInterrupt), string(session.ModeRollback), string(session.ModeReject))...)
	table, _, _ := strings.Cut(s.page, "```jsonl stream")
	for _, name := range append(types, s.Properties["status"].Enum...) {
		if !strings.Contains(table, "`"+name+"`") {
			t.Errorf("docs/events.md: %s is in no table", name)
		}
	}
	example, _ := eventsBlock(t, "jsonl stream")
	for line := range strings.Lines(example) {
		s.check(t, strings.TrimSpace(line))
	}
}
