package exec

import (
	"encoding/json"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

// blocks are the code blocks of a page whose opening line is ``` and info.
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
	found := blocks(t, "events.md", "jsonl")
	if len(found) != 1 {
		t.Fatalf("%d examples", len(found))
	}
	var types []agent.EventType
	lines := eventLines{
		emit: func(e agent.Event) { types = append(types, e.Type) }, logger: slog.Default(), onEnd: func() {},
	}
	if err := lines.copyFrom(strings.NewReader(found[0])); err != nil {
		t.Error(err)
	}
	if len(types) != 7 || !lines.ended || lines.result.Text != "The build fails in line 17." {
		t.Errorf("events %v, result %+v", types, lines.result)
	}
}

func TestDocsExampleOfTurn(t *testing.T) {
	t.Parallel()
	found := blocks(t, "events.md", "json turn")
	if len(found) != 1 {
		t.Fatalf("%d examples", len(found))
	}
	var turn agent.Turn
	if err := session.DecodeStrict([]byte(found[0]), &turn); err != nil {
		t.Error(err)
	}
	if len(turn.Messages) != 1 || len(turn.Messages[0].Attachments) != 1 || len(turn.History) != 3 {
		t.Errorf("%+v", turn)
	}
}

// The schemas name the fields that the types have.
func TestDocsSchemas(t *testing.T) {
	t.Parallel()
	type schema struct {
		Properties map[string]any    `json:"properties"`
		Defs       map[string]schema `json:"$defs"`
	}
	found := blocks(t, "events.md", "json")
	if len(found) != 2 {
		t.Fatalf("%d schemas", len(found))
	}
	var event, turn schema
	for i, into := range []*schema{&event, &turn} {
		if err := json.Unmarshal([]byte(found[i]), into); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		schema schema
		of     any
	}{
		"event":      {event, line{}},
		"turn":       {turn, agent.Turn{}},
		"message":    {turn.Defs["message"], agent.Message{}},
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
			t.Errorf("%s: docs/events.md has %v, the type has %v", name, documented, want)
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
	if _, err := osexec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	a := newAgent(t, Config{Command: script(t, "python", "python3"), Format: JSONL})
	text, err := runText(t.Context(), a, turn(t, "how many words"))
	if err != nil || text != "3 words, after 0 entries of history." {
		t.Errorf("%q, %v", text, err)
	}
}

// The wrapper begins a session once and resumes it then. Its claude is played by
// a script that says how it was called.
func TestDocsClaudeWrapper(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "claude"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("HOME", dir)
	a := newAgent(t, Config{Command: script(t, "sh", "sh")})
	first, err1 := runText(t.Context(), a, turn(t, "hi"))
	second, err2 := runText(t.Context(), a, turn(t, "hi"))
	id, ok := strings.CutPrefix(first, "-p --session-id ")
	if err1 != nil || err2 != nil || !ok || second != "-p --resume "+id {
		t.Errorf("first %q %v, then %q %v", first, err1, second, err2)
	}
	if !regexp.MustCompile("^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$").MatchString(id) {
		t.Errorf("the id %q is no UUID", id)
	}
}

// script writes the only block of docs/agents.md in that language to a file, and
// answers the command to run it. Not by its #!: a parallel test that forks may
// have it open for writing a little longer.
func script(t *testing.T, language, interpreter string) []string {
	t.Helper()
	found := blocks(t, "agents.md", language)
	if len(found) != 1 {
		t.Fatalf("%d blocks in %s", len(found), language)
	}
	name := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(name, []byte(found[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{interpreter, name}
}
