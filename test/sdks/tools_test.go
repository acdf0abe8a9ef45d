package sdks

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"turnstile/test/modelserver"
)

// What the clients of tools.mjs get at their ends: from a tool, from a schema, or from what was said before.
const (
	fromTool   = "It is 21, in brief."
	fromSchema = `{"city":"Rome","degrees":21}`
)

var withTools = map[string]string{
	"openai-responses": fromTool, "openai-responses-stream": fromTool, "openai-responses-history": fromTool, "openai-responses-parse": fromSchema,
	"openai-chat": fromTool, "openai-chat-run-tools": fromTool, "openai-chat-run-tools-stream": fromTool, "openai-chat-parse": fromSchema,
	"agents": fromTool, "agents-conversation": fromTool, "agents-stream": fromTool, "agents-chat": fromTool, "agents-handoff": fromTool,
	"agents-session": "It was 21, in brief.", "agents-output": fromSchema,
	"langchain-responses": fromTool, "langchain-responses-conversation": fromTool, "langchain-chat": fromTool, "langchain-chat-session": fromTool,
	"langchain-structured": fromSchema, "langchain-structured-function": fromSchema, "langchain-structured-responses": fromSchema,
	"ai-responses": fromTool, "ai-responses-stored": fromTool, "ai-responses-next": "It was 21, in brief.", "ai-responses-previous": fromTool, "ai-responses-conversation": fromTool, "ai-responses-stream": fromTool,
	"ai-chat": fromTool, "ai-chat-session": fromTool, "ai-chat-stream": fromTool, "ai-compatible": fromTool,
	"ai-object-responses": fromSchema, "ai-object-chat": fromSchema, "ai-object-compatible": fromSchema,
	"ai-use-chat": "It was 21, in brief.", "ai-use-chat-responses": "It was 21, in brief.",
}

// weatherman is a model that uses the tools it is offered, and says what it was told before.
func weatherman(q modelserver.Request) modelserver.Response {
	last, brief := q.Messages[len(q.Messages)-1], "."
	if strings.Contains(q.Messages[0].Text(), "Be brief.") {
		brief = ", in brief."
	}
	tool := func(prefix string) string {
		for _, t := range q.Tools {
			if strings.HasPrefix(t.Function.Name, prefix) {
				return t.Function.Name
			}
		}
		return ""
	}
	result := slices.IndexFunc(q.Messages, func(m modelserver.Message) bool { return m.Role == "tool" && m.Text() == "21" })
	switch {
	case last.Text() == "Repeat the result." && result >= 0:
		return modelserver.Reply("It was " + q.Messages[result].Text() + brief)
	case last.Role == "tool" && last.Text() == "21", result >= 0 && result == len(q.Messages)-2: // the AI SDK repeats the user's words after it
		return modelserver.Reply("It is " + q.Messages[result].Text() + brief)
	case strings.Contains(string(q.Body), `"type":"json_schema"`):
		return modelserver.Reply(fromSchema)
	case strings.Contains(string(q.Body), `"degrees"`): // a schema as a tool
		return modelserver.Stream(modelserver.Call("call_1", tool("weather"), fromSchema))
	case tool("transfer_to") != "":
		return modelserver.Stream(modelserver.Call("call_0", tool("transfer_to"), "{}"))
	case tool("weather") != "":
		return modelserver.Stream(modelserver.Text("Let me see. "), modelserver.Call("call_1", "weather", `{"city":`, `"Rome"}`))
	}
	return modelserver.Error(http.StatusBadRequest, "no_tool", string(q.Body))
}

// Programs bring their tools, instructions, histories and schemas with every library, whole and streamed.
func TestToolsOfClients(t *testing.T) {
	p := newPrograms(t)
	model := modelserver.New(t)
	model.Otherwise(weatherman)
	p.gateway()
	p.worker("TURNSTILE_AGENT=model", "TURNSTILE_MODEL=m", "TURNSTILE_MODEL_URL="+model.URL(), "TURNSTILE_INSTRUCT=true")
	var names []string
	for name := range withTools {
		names = append(names, name)
	}
	results := p.results(p.node("tools.mjs", "", names...), names)
	for _, name := range names {
		l, got := results[name], results[name].Text
		var v any
		if json.Unmarshal([]byte(got), &v) == nil { // the order of fields is the library's
			data, _ := json.Marshal(v)
			got = string(data)
		}
		got = strings.TrimPrefix(got, "Let me see. ")
		if got != withTools[name] || l.Error != "" {
			t.Errorf("%s: %q %s", name, l.Text, l.Error)
		}
	}
}
