package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("i", maxCallID+1)
	tn := turn("now")
	tn.Note = "[System note: y]"
	tn.History = []session.Entry{
		{Role: session.RoleSystem, Text: "[an entry that cannot be read]"},
		user("first"),
		assistant("looking"),
		used(session.ToolUse{Name: "ls", CallID: "a", Input: []byte(`{"d":"/"}`), Output: []byte(`"x\ny"`)}),
		used(session.ToolUse{Name: "read file", CallID: "a", Input: []byte(`"name"`), Output: []byte(`{"n":1}`), Parallel: true}),
		{Role: session.RoleTool},
		assistant("found"),
		assistant(""),
		user("second"),
		used(session.ToolUse{Name: "", CallID: long, Error: "exit status 1"}),
		used(session.ToolUse{Name: "make", Input: []byte("null")}),
		{Role: session.RoleUser, Text: "third", Attachments: []session.Attachment{{Name: "f", Path: "/f"}}},
	}
	r := newRig(t, Config{}, text("ok"))
	r.must(tn)
	r.wasAsked(1, `
user: first
assistant: looking a=ls({"d":"/"}) call00001=read_file({"input":"name"})
tool: x
y =a
tool: {"n":1} =call00001
assistant: found
user: second
assistant:  call00002=tool({})
tool: Error: exit status 1 =call00002
assistant:  call00003=make({})
tool: Error: `+cutOff+` =call00003
user: third

[Attachment: f: /f]

[System note: y]

now`)
}

func TestContextTokens(t *testing.T) {
	t.Parallel()
	tn := turn(strings.Repeat("now ", 100)) // kept at any size
	for i := range 30 {
		tn.History = append(tn.History, user(fmt.Sprintf("q%d", i)), assistant("let me see"),
			used(session.ToolUse{Name: "ls", CallID: fmt.Sprintf("id%d", i), Output: quoted(strings.Repeat("x", 200))}))
	}
	fewest, most := 1000, 0
	for tokens := 100; tokens < 1500; tokens += 50 {
		r := newRig(t, Config{ContextTokens: tokens, SystemPrompt: "be kind"}, text("ok"))
		r.must(tn)
		messages := r.model.Requests()[0].Messages
		fewest, most = min(fewest, len(messages)), max(most, len(messages))
		if messages[0].Role != "system" || messages[len(messages)-1].Text() != tn.Messages[0].Text {
			t.Errorf("%d: %s", tokens, r.asked(1))
		}
		var calls, results []string
		for _, m := range messages {
			for _, c := range m.ToolCalls {
				calls = append(calls, c.ID)
			}
			if m.ToolCallID != "" {
				results = append(results, m.ToolCallID)
			}
		}
		if !slices.Equal(calls, results) {
			t.Errorf("%d: calls %v, results %v", tokens, calls, results)
		}
		if len(messages) > 2 {
			if messages[1].Role != "user" {
				t.Errorf("%d: the conversation begins with %s", tokens, messages[1].Role)
			}
			if estimate := len(r.asked(1))/bytesPerToken + len(messages)*messageTokens; estimate > tokens+100 {
				t.Errorf("%d: about %d were sent", tokens, estimate)
			}
		}
		if n := strings.Count(r.log.String(), "its oldest part is left out"); n != 1 {
			t.Errorf("%d: said %d times:\n%s", tokens, n, r.log.String())
		}
	}
	if fewest != 2 || most < 30 {
		t.Errorf("from %d to %d messages", fewest, most)
	}
}

// The estimate includes images, tools and the turn's own results.
func TestEstimate(t *testing.T) {
	t.Parallel()
	m := userMessage(&agent.Speakers{}, strings.Repeat("x", 40), nil, []session.Attachment{{Name: "i", Mime: "image/png", URL: "data:image/png;base64,AAAA"}})
	if got := m.tokens(); got != messageTokens+10+imageTokens {
		t.Errorf("%d", got)
	}
	tn := turn("now")
	tn.History = []session.Entry{user(strings.Repeat("old ", 100))}
	r := newRig(t, Config{ContextTokens: 350, Tools: []Tool{shell("big", "head -c 900 /dev/zero | tr '\\0' x")}}, call("c1", "big", "{}"), text("ok"))
	r.must(tn)
	if first, second := r.asked(1), r.asked(2); !strings.Contains(first, "old") || !strings.HasPrefix(second, first) || !strings.Contains(second, "xxx") {
		t.Errorf("%s\n%s", first, second)
	}
	tn.History = append(tn.History, used(session.ToolUse{Name: "big", Output: quoted(strings.Repeat("x", 900))}))
	r = newRig(t, Config{ContextTokens: 350}, text("ok"))
	r.must(tn)
	if strings.Contains(r.asked(1), "old") {
		t.Error("results do not count in the next turn")
	}
	tn.History = tn.History[:1]
	r = newRig(t, Config{ContextTokens: 200, Tools: []Tool{{Name: "a", Description: strings.Repeat("d", 600), Argv: []string{"true"}}}}, text("ok"))
	r.must(tn)
	if strings.Contains(r.asked(1), "old") {
		t.Error("tools do not count")
	}
}

func FuzzHistory(f *testing.F) {
	f.Add("name", "id", `{"a":1}`, `"out"`, "")
	f.Add("", "", ``, ``, "err")
	f.Add("ü b", strings.Repeat("x", 99), `[`, `null`, "")
	f.Fuzz(func(t *testing.T, name, id, in, out, failed string) {
		use := session.ToolUse{Name: name, CallID: id, Input: json.RawMessage(in), Output: json.RawMessage(out), Error: failed}
		ids := newCallIDs()
		all := blocks([]session.Entry{used(use), used(use), assistant("a"), used(use)}, &agent.Speakers{}, ids)
		seen := map[string]bool{}
		for _, b := range all {
			n := 0
			for _, m := range b.messages {
				for _, c := range m.calls {
					var object map[string]json.RawMessage
					if seen[c.id] || c.id == "" || !toolName.MatchString(c.name) || json.Unmarshal([]byte(c.args), &object) != nil {
						t.Errorf("%+v", c)
					}
					seen[c.id] = true
					n++
				}
				if m.role == roleTool {
					n--
				}
			}
			if n != 0 {
				t.Errorf("%+v", b)
			}
		}
		if len(seen) != 3 {
			t.Errorf("%d calls", len(seen))
		}
	})
}
