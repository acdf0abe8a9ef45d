package sdks

import (
	"strings"
	"testing"
)

// OpenAI's library makes, uses and deletes a conversation, and the Agents SDK reads and deletes it. What a session has
// no place for is an error with a sentence.
func TestConversations(t *testing.T) {
	p := newPrograms(t)
	p.gateway()
	p.worker()
	want := map[string]string{
		"models.retrieve":                 "echo",
		"models.retrieve, unknown":        "404 model_not_found",
		"conversations.retrieve":          "true",
		"responses.create":                "echo: hello",
		"inputItems.list":                 "user tool=look hello",
		"items.list":                      "user tool=look hello, mcp_call look, assistant echo: hello",
		"items.retrieve":                  "true",
		"items.create":                    "400 invalid_request",
		"update":                          "400 invalid_request",
		"create with metadata":            "400 invalid_request",
		"run with conversationId":         "echo: again",
		"session.getItems":                "5",
		"session.getItems, the last":      "echo: again",
		"run with a session":              "400 invalid_request",
		"session.popItem":                 "400 invalid_request",
		"responses.delete":                "true",
		"responses.retrieve, deleted":     "404 unknown_message",
		"session.clearSession":            "undefined",
		"conversations.retrieve, deleted": "404 unknown_session",
		"conversations.delete":            "true",
	}
	sentences := map[string]string{
		"items.create": "send them as the input of one", "run with a session": "send them as the input of one",
		"update": "keeps no metadata", "create with metadata": "keeps no metadata", "session.popItem": "undo",
	}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	for name, l := range p.results(p.node("conversations.mjs", ""), names) {
		got := l.Text
		if strings.HasPrefix(got, "4") && strings.HasPrefix(got, want[name]) {
			if !strings.Contains(got, sentences[name]) {
				t.Errorf("%s: %s", name, got)
			}
			continue
		}
		if got != want[name] {
			t.Errorf("%s: got %q, want %q", name, got, want[name])
		}
	}
}
