package acp

import (
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// An agent goes on only if its session ends with the turn's words. Otherwise the turn begins again.
func TestReplayIsAProof(t *testing.T) {
	t.Parallel()
	user := func(texts ...string) (chunks []string) {
		for _, text := range texts {
			chunks = append(chunks, `{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"`+text+`"}}`)
		}
		return chunks
	}
	agents := `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"well"}}`
	began := `{"sessionUpdate":"tool_call","toolCallId":"t1","title":"ls","status":"in_progress"}`
	ended := `{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed"}`
	said := func(id, text string) session.Entry {
		return session.Entry{Role: session.RoleUser, Message: id, Text: text}
	}
	for name, c := range map[string]struct {
		shown   []string
		history []session.Entry
		goesOn  bool
		repeats bool // the tool
	}{
		"nothing":                    {},
		"the words":                  {shown: user("do it"), goesOn: true, repeats: true},
		"in pieces":                  {shown: user("[a note]\\n\\ndo", " it"), goesOn: true, repeats: true},
		"with what was attached":     {shown: user("do it", "a picture"), goesOn: true, repeats: true},
		"and work":                   {shown: append(user("do it"), agents, began, ended), goesOn: true},
		"and work without an end":    {shown: append(user("do it"), agents, began), goesOn: true, repeats: true},
		"other words":                {shown: user("do it not")},
		"other words after them":     {shown: append(append(user("do it"), agents), user("no")...)},
		"after other words":          {shown: append(append(user("hello"), agents), user("do it")...), history: []session.Entry{said("m0", "hello")}, goesOn: true, repeats: true},
		"the last turn's words":      {shown: append(user("do it"), agents), history: []session.Entry{said("m0", "do it")}},
		"this turn's in the journal": {shown: user("do it"), history: []session.Entry{said("m1", "do it")}, goesOn: true, repeats: true},
	} {
		turn := &agent.Turn{Messages: []session.Message{{ID: "m1", Text: "do it"}}}
		turn.History = append(c.history, session.Entry{Role: session.RoleTool, Tool: &session.ToolUse{Name: "ls", CallID: "t1"}})
		r := &replay{ended: map[string]bool{}}
		for _, u := range c.shown {
			r.take([]byte(`{"sessionId":"s","update":` + u + `}`))
		}
		got := r.goOn(turn)
		if got != "" != c.goesOn || strings.Contains(got, "tool ls(") != c.repeats {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Only an agent that was tested is asked to load its session for it, and only for a turn that was interrupted.
func TestWhoGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		redelivered bool
		want        string
	}{
		{"OpenCode", true, "initialize load prompt"},
		{"OpenCode", false, "initialize resume prompt"},
		{"another", true, "initialize resume prompt"},
	} {
		log := t.TempDir() + "/log"
		a := acting(t, "can-load", "can-resume", "name="+c.name, "log="+log)
		turn := turnWith(t, "replayed")
		turn.Redelivered, turn.State = c.redelivered, encode(state{Agent: "acp", ID: "s1", Name: c.name})
		_, err := play(t.Context(), a, turn)
		goesOn := strings.Contains(strings.Join(logOf(t, log), "\n"), "No new message follows")
		if got := methodsOf(t, log); got != c.want || goesOn != (c.want == "initialize load prompt") {
			t.Errorf("%+v: %s, goes on: %t, %v", c, got, goesOn, err)
		}
	}
	expect.Equal(t, "the tested agents", len(goOn), 1)
}
