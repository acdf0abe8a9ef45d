package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func TestRemembered(t *testing.T) {
	t.Parallel()
	failed, stopped := &session.Ended{Status: session.StatusFailed, Why: "the model\nrefused"}, &session.Ended{Status: session.StatusStopped}
	user := func(turn, message, text string) session.Entry {
		return session.Entry{Role: session.RoleUser, Turn: turn, Message: message, Text: text, Attachments: []session.Attachment{{Name: "a", URL: "http://a"}}}
	}
	said := func(turn, text string) session.Entry {
		return session.Entry{Role: session.RoleAssistant, Turn: turn, Text: text}
	}
	used := func(turn, name, output string) session.Entry {
		use := session.ToolUse{Name: name, CallID: name, Input: json.RawMessage(`{"a":1}`)}
		if output != "" {
			use.Output, _ = json.Marshal(output)
		}
		return session.Entry{Role: session.RoleTool, Turn: turn, Tool: &use}
	}
	ended := func(how *session.Ended, entries ...session.Entry) []session.Entry {
		last := &entries[len(entries)-1]
		last.Ended, last.Interrupted = how, true
		return entries
	}
	all := func(turns ...[]session.Entry) (list []session.Entry) {
		for _, turn := range turns {
			list = append(list, turn...)
		}
		return list
	}
	good := []session.Entry{user("0", "m0", "hi"), said("0", "hello")}
	long := strings.Repeat("ä", 2<<10)
	for name, c := range map[string]struct {
		transcript []session.Entry
		now        string // the message of the turn
		want       string
	}{
		"good": {good, "", "user hi +a|assistant hello"},
		"a tool, no reply": {
			all(good, ended(failed, user("1", "m1", "book it"), used("1", "charge", "paid"), used("1", "mail", ""))), "",
			`user hi +a|assistant hello|user book it|tool charge {"a":1} "paid"|tool mail {"a":1} |assistant [This turn failed here: the model refused] (failed)`,
		},
		"half a reply": {ended(stopped, user("1", "m1", "write"), said("1", "Once")), "", "user write|assistant Once\n\n[The user stopped this turn here.] (stopped)"},
		"long": {
			ended(failed, user("1", "m1", long), used("1", "cat", long), said("1", long), user("1", "m2", "steered")), "",
			"user " + long[:2048] + `...|tool cat {"a":1} "` + long[:recapTool] + `..."|assistant ` + long[:2048] + "...\n\n[This turn failed here: the model refused] (failed)",
		},
		"an outage": {
			all(ended(failed, user("1", "m1", "a")), ended(failed, user("2", "m2", "b")), ended(stopped, user("3", "m3", "c")), ended(failed, user("4", "m4", "d"))), "",
			"user b|assistant [This turn failed here: the model refused] (failed)|user c|assistant [The user stopped this turn here.] (stopped)|" +
				"user d|assistant [This turn failed here: the model refused] (failed)",
		},
		"an effect in an outage": {
			all(ended(failed, user("1", "m1", "a"), used("1", "charge", "paid")), ended(failed, user("2", "m2", "b"))), "",
			`user a|tool charge {"a":1} "paid"|assistant [This turn failed here: the model refused] (failed)|user b|assistant [This turn failed here: the model refused] (failed)`,
		},
		"runs again": {
			ended(failed, user("1", "m1", "a"), used("1", "charge", "paid")), "m1",
			`user [The message that follows once more]|tool charge {"a":1} "paid"|assistant [This turn failed here: the model refused] (failed)`,
		},
		"ran again": {
			all(ended(failed, user("1", "m1", "a"), said("1", "so")), []session.Entry{user("2", "m1", "a"), said("2", "done")}), "",
			"user [The message that follows once more]|assistant so\n\n[This turn failed here: the model refused] (failed)|user a +a|assistant done",
		},
		"brought results": {
			all(good, ended(failed, session.Entry{Role: session.RoleUser, Turn: "1", Message: "m1", Brought: &session.Brought{Results: []session.CallResult{{CallID: "c"}}}})), "",
			"user hi +a|assistant hello",
		},
		"an entry that cannot be read": {
			ended(failed, user("1", "m1", "a"), session.Entry{Role: session.RoleSystem, Text: "[unreadable]"}, said("1", "so")), "",
			"user a|assistant so\n\n[This turn failed here: the model refused] (failed)",
		},
	} {
		var now []session.Message
		if c.now != "" {
			now = append(now, session.Message{ID: c.now})
		}
		var got []string
		for _, e := range Remembered(c.transcript, now) {
			line := strings.TrimSpace(string(e.Role) + " " + e.Text)
			if u := e.Tool; u != nil {
				line += fmt.Sprintf(" %s %s %s", u.Name, u.Input, u.Output)
			}
			for _, a := range e.Attachments {
				line += " +" + a.Name
			}
			if e.Ended != nil {
				line += fmt.Sprintf(" (%s)", e.Ended.Status)
			}
			if e.Interrupted {
				line += " [interrupted]"
			}
			got = append(got, line)
		}
		expect.Equal(t, name, strings.Join(got, "|"), c.want)
	}
}

// An agent whose own session goes on receives the turns at the end that failed, and no others.
func TestRecapEnded(t *testing.T) {
	t.Parallel()
	entry := func(turn, text string, how *session.Ended) session.Entry {
		return session.Entry{Role: session.RoleAssistant, Turn: turn, Text: text, Ended: how}
	}
	failed := &session.Ended{Status: session.StatusFailed}
	turn := &Turn{History: []session.Entry{entry("1", "old", failed), entry("2", "good", nil), entry("3", "one", failed), entry("4", "two", nil), entry("4", "three", failed)}}
	got := turn.RecapEnded(1 << 10)
	if strings.Contains(got, "old") || strings.Contains(got, "good") || !strings.Contains(got, "Assistant: one\n\nAssistant: two\n\nAssistant: three") {
		t.Error(got)
	}
	turn.History = turn.History[:2]
	expect.Equal(t, "after a good turn", turn.RecapEnded(1<<10), "")
}
