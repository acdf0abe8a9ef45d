package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// OpenAI's SDK is the reference for the wire format in these tests.

// sdkClient returns the SDK's client of a model, without its settings from the environment.
func sdkClient(t *testing.T, m *modelserver.Server) sdk.ChatCompletionService {
	t.Helper()
	own := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(own.CloseIdleConnections)
	return sdk.NewChatCompletionService(option.WithBaseURL(m.URL()), option.WithHTTPClient(own), option.WithMaxRetries(0))
}

// sameJSON reports whether two texts are the same JSON.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatalf("%v: %s %s", err, a, b)
	}
	return reflect.DeepEqual(x, y)
}

// The SDK can read the agent's requests, sends the same ones, and reads the same from the streams
// that come back.
func TestAgentAndSDKAgree(t *testing.T) {
	t.Parallel()
	answers := []modelserver.Response{
		modelserver.Stream(modelserver.Text("let ", "me <see>"), modelserver.Call("c1", "add", `{"a"`, `:1}`), modelserver.Call("c2", "add", `{}`), modelserver.UseCached(40, 30, 5)),
		modelserver.Stream(modelserver.Delta("refusal", "I can", "not."), modelserver.Use(50, 6)),
	}
	add := shell("add", "cat")
	add.Parameters = []byte(`{"type":"object","properties":{"a":{"type":"integer","maximum":9007199254740991},"b":{"enum":["<",null]}},"required":["a"]}`)
	tn := turn("now", "and")
	tn.Note = "[System note: y]"
	tn.Messages[0].Attachments = []session.Attachment{{Name: "i", Mime: "image/png", URL: "https://x.test/a.png?b=1&c=2"}}
	tn.History = []session.Entry{
		user("first"), assistant("looking"), used(session.ToolUse{Name: "ls", CallID: "a", Input: []byte(`{"d":"/"}`), Output: []byte(`"x\ny"`)}),
		used(session.ToolUse{Name: "ls", CallID: "b", Error: "exit status 1"}), assistant("found"),
	}
	r := newRig(t, Config{SystemPrompt: "be kind", MaxTokens: 50, Temperature: ptr(0.0), Tools: []Tool{add}}, answers...)
	r.must(tn)
	other := modelserver.New(t, answers...)
	client := sdkClient(t, other)
	var calls, text []string
	var used []session.Usage
	for i, q := range r.model.Requests() {
		var params sdk.ChatCompletionNewParams
		if err := json.Unmarshal(q.Body, &params); err != nil {
			t.Fatal(err)
		}
		stream := client.NewStreaming(t.Context(), params)
		var whole sdk.ChatCompletionAccumulator
		for stream.Next() {
			whole.AddChunk(stream.Current())
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		if sent := other.Requests()[i].Body; !sameJSON(t, q.Body, sent) {
			t.Errorf("the agent sent\n%s\nthe SDK sends\n%s", q.Body, sent)
		}
		m := whole.Choices[0].Message
		text = append(text, m.Content+m.Refusal)
		for _, c := range m.ToolCalls {
			calls = append(calls, c.ID+" "+c.Function.Name+" "+c.Function.Arguments)
		}
		u := whole.Usage
		used = append(used, session.Usage{Model: whole.Model, InputTokens: u.PromptTokens, CachedTokens: u.PromptTokensDetails.CachedTokens,
			OutputTokens: u.CompletionTokens, ContextTokens: u.TotalTokens})
	}
	var gotCalls []string
	var gotText []string
	var gotUsed []session.Usage
	for _, e := range r.events {
		switch e.Type {
		case session.EventText:
			gotText = append(gotText, e.Text)
		case session.EventToolStart:
			gotCalls = append(gotCalls, e.CallID+" "+e.Name+" "+string(e.Input))
		case session.EventUsage:
			gotUsed = append(gotUsed, *e.Usage)
		}
	}
	if strings.Join(gotText, "") != strings.Join(text, "") || !slices.Equal(gotCalls, calls) || !reflect.DeepEqual(gotUsed, used) || len(calls) != 2 {
		t.Errorf("the agent read %q, %q, %+v\nthe SDK %q, %q, %+v", gotText, gotCalls, gotUsed, text, calls, used)
	}
}

// A stream of the SDK's own types has every field, most of them empty.
func TestStreamOfTheSDKsTypes(t *testing.T) {
	t.Parallel()
	step := func(delta sdk.ChatCompletionChunkChoiceDelta, finish string) modelserver.Step {
		data, err := json.Marshal(sdk.ChatCompletionChunk{ID: "x", Model: "m", Choices: []sdk.ChatCompletionChunkChoice{{Delta: delta, FinishReason: finish}}})
		if err != nil {
			t.Fatal(err)
		}
		return modelserver.Raw("data: " + string(data) + "\n\n")
	}
	piece := func(id, name, args string) sdk.ChatCompletionChunkChoiceDelta {
		c := sdk.ChatCompletionChunkChoiceDeltaToolCall{ID: id, Type: "function"}
		c.Function.Name, c.Function.Arguments = name, args
		return sdk.ChatCompletionChunkChoiceDelta{ToolCalls: []sdk.ChatCompletionChunkChoiceDeltaToolCall{c}}
	}
	r := newRig(t, Config{Tools: []Tool{shell("cat", "cat")}},
		modelserver.Stream(step(sdk.ChatCompletionChunkChoiceDelta{Role: "assistant", Content: "Go"}, ""), step(sdk.ChatCompletionChunkChoiceDelta{Content: "od"}, ""),
			step(piece("c1", "cat", ""), ""), step(piece("", "", `{"a":`), ""), step(piece("", "", `1}`), "tool_calls")),
		modelserver.Stream(step(sdk.ChatCompletionChunkChoiceDelta{Refusal: "no"}, "stop")))
	r.must(turn("go"))
	got := strings.Split(r.story(), "\n")
	got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "usage: ") })
	if want := []string{"text: Good", `tool_start: c1 cat {"a":1}`, `tool_end: c1 {"a":1}`, "text: no"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// sdkMessage builds a message with the SDK's constructors.
func sdkMessage(m message) sdk.ChatCompletionMessageParamUnion {
	switch m.role {
	case roleSystem:
		return sdk.SystemMessage(m.text)
	case roleTool:
		return sdk.ToolMessage(m.text, m.callID)
	case roleAssistant:
		p := *sdk.AssistantMessage(m.text).OfAssistant
		for _, c := range m.calls {
			f := sdk.ChatCompletionMessageFunctionToolCallParam{ID: c.id}
			f.Function.Name, f.Function.Arguments = fittingName(c.name), c.args
			p.ToolCalls = append(p.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &f})
		}
		if raw := m.fields["reasoning_content"]; raw != nil {
			p.SetExtraFields(map[string]any{"reasoning_content": raw})
		}
		return sdk.ChatCompletionMessageParamUnion{OfAssistant: &p}
	}
	if len(m.images) == 0 {
		return sdk.UserMessage(m.text)
	}
	parts := []sdk.ChatCompletionContentPartUnionParam{sdk.TextContentPart(m.text)}
	for _, i := range m.images {
		parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: i.url}))
	}
	return sdk.UserMessage(parts)
}

// Every message is written as the SDK writes it.
func FuzzMessage(f *testing.F) {
	f.Add("text", "https://x.test/<a>.png?b&c", "c1", "ls", `{"a":1}`, "why")
	f.Add("", "", "", "", "", "")
	f.Add("ü\xff\u2028", "data:image/png;base64,AAAA", "\x00", "no such", `[`, "\n")
	f.Fuzz(func(t *testing.T, text, url, id, name, args, reasoning string) {
		calls := []toolCall{{id: id, name: name, args: args}, {id: "c2", name: "ls", args: "{}"}}
		for _, m := range []message{
			{role: roleSystem, text: text},
			{role: roleUser, text: text},
			{role: roleUser, text: text, images: []image{{url: cmp.Or(url, "data:,")}, {url: "https://x.test/b.png"}}},
			{role: roleAssistant, text: text},
			{role: roleAssistant, text: text, calls: calls},
			{role: roleAssistant, text: text, calls: calls[:1], fields: fields{"reasoning_content": quoted(reasoning)}},
			{role: roleTool, text: text, callID: cmp.Or(id, "c1")},
		} {
			got, err := encode(m.wire(form{}))
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(sdkMessage(m))
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, got, want) {
				t.Errorf("%s, the SDK writes %s", got, want)
			}
		}
	})
}

// However the bytes come and the lines end, the events are the same.
func FuzzEvents(f *testing.F) {
	f.Add("data: a\n\ndata:b\n\n: comment\n\nevent: x\ndata: c\ndata: d\nid: 1\n\ndata\n\ndata:  e\n\ndata: [DONE]\n\ndata: half", uint8(3))
	f.Add("\n\n\n\ufeffdata: a\n\n data: b\n\ndatax: c\n\ndata: {}\ndata: {\ndata: }", uint8(1))
	f.Fuzz(func(t *testing.T, stream string, most uint8) {
		stream = strings.ReplaceAll(stream, "\r", "")
		want, err := read(strings.NewReader(stream), maxEvent)
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []string{"\n", "\r\n", "\r"} {
			got, err := read(slowly{strings.NewReader(strings.ReplaceAll(stream, "\n", end)), int(most)}, maxEvent)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %q, want %q, %v", end, got, want, err)
			}
		}
	})
}

// slowly reads a few bytes at a time.
type slowly struct {
	io.Reader
	most int
}

func (s slowly) Read(p []byte) (int, error) { return s.Reader.Read(p[:min(len(p), s.most+1)]) }

// The SDK would be half of the worker's binary, so only tests may import it.
func TestProgramsDoNotHaveTheSDK(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "turnstile/cmd/worker", "turnstile/cmd/enqueue").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out, []byte("turnstile/pkg/agent/model\n")) {
		t.Fatalf("the list does not even have this package: %s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "github.com/openai/") {
			t.Errorf("a program has %s", line)
		}
	}
}
