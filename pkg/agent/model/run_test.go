package model

import (
	"net/http"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/modelserver"
)

func TestReplyIsStreamed(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, Config{Key: key, SystemPrompt: "be kind", MaxTokens: 50, Temperature: ptr(0.5)},
		modelserver.Stream(modelserver.Thought("hm", "m"), modelserver.Text("Good "), modelserver.Wait(gate), modelserver.Text("day", "!"), modelserver.UseCached(40, 30, 5)))
	tn := turn("hello")
	tn.Note = "[System note: x]"
	done := make(chan error)
	seen := make(chan struct{})
	go func() {
		_, err := r.agent.Run(t.Context(), emitting(tn, func(e agent.Event) {
			r.emit(e)
			if e.Text == "Good " {
				close(seen)
			}
		}))
		done <- err
	}()
	<-seen // before the rest is sent
	close(gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.told(`
thought: hm
thought: m
text: Good day!
usage: {Model:m InputTokens:40 CachedTokens:30 OutputTokens:5 CostUSD:0 ContextTokens:45 ContextLimit:0}`)
	r.wasAsked(1, `
system: be kind
user: [System note: x]

hello`)
	q := r.model.Requests()[0]
	if q.Model != "m" || !q.Stream || q.Temperature == nil || *q.Temperature != 0.5 || q.MaxTokens == nil || *q.MaxTokens != 50 || q.MaxCompletionTokens != nil || len(q.Tools) > 0 {
		t.Errorf("%s", q.Body)
	}
	if got := q.Header.Get("Authorization"); got != "Bearer "+key {
		t.Errorf("Authorization %q", got)
	}
	if !strings.Contains(string(q.StreamOptions), `"include_usage":true`) {
		t.Errorf("%s", q.StreamOptions)
	}
}

// The environment has everything that the SDK would read from it.
func TestNothingComesFromTheEnvironment(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{}, text("hi"))
	r.must(turn("hello"))
	q := r.model.Requests()[0]
	for name, values := range q.Header {
		for _, v := range values {
			if strings.Contains(v, "sk-") || strings.Contains(v, "-env") || name == "Authorization" || strings.HasPrefix(name, "Openai-") || name == "X-Custom" {
				t.Errorf("%s: %s", name, v)
			}
		}
	}
	if q.MaxTokens != nil || q.Temperature != nil || strings.Contains(string(q.Body), "system") {
		t.Errorf("%s", q.Body)
	}
}

func TestThoughtsUnderAnotherName(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{}, modelserver.Stream(modelserver.Delta("reasoning", "a"), modelserver.Text("b")))
	r.must(turn("hello"))
	r.told("thought: a\ntext: b")
}

func TestToolLoop(t *testing.T) {
	t.Parallel()
	add := shell("add", `read -r args; echo "{\"got\":$args}"`)
	add.Parameters = []byte(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`)
	r := newRig(t, Config{Tools: []Tool{add, shell("say", `cat >/dev/null; printf 'two\nlines\n\n'`)}},
		modelserver.Stream(modelserver.Text("let me see"), modelserver.Call("c1", "add", `{"a"`, `:1}`), modelserver.Call("c2", "say"), modelserver.Use(10, 2)),
		modelserver.Stream(modelserver.Call("c2", "say", `{}`)),
		modelserver.Stream(modelserver.Text("done"), modelserver.Use(20, 3)),
	)
	r.must(turn("go"))
	r.told(`
text: let me see
usage: {Model:m InputTokens:10 CachedTokens:0 OutputTokens:2 CostUSD:0 ContextTokens:12 ContextLimit:0}
tool_start: c1 add {"a":1}
tool_end: c1 {"got":{"a":1}}
tool_start: c2 say {}
tool_end: c2 "two\nlines"
tool_start: call00001 say {}
tool_end: call00001 "two\nlines"
text: done
usage: {Model:m InputTokens:20 CachedTokens:0 OutputTokens:3 CostUSD:0 ContextTokens:23 ContextLimit:0}`)
	r.wasAsked(3, `
user: go
assistant: let me see c1=add({"a":1}) c2=say({})
tool: {"got":{"a":1}} =c1
tool: two
lines =c2
assistant:  call00001=say({})
tool: two
lines =call00001`)
	offered := r.model.Requests()[0].Tools
	if len(offered) != 2 || offered[0].Function.Name != "add" || offered[0].Function.Description != "for tests" ||
		!strings.Contains(string(offered[0].Function.Parameters), `"required":["a"]`) || string(offered[1].Function.Parameters) != `{"properties":{},"type":"object"}` {
		t.Errorf("%+v", offered)
	}
}

// Some servers give every call the same index, or no ID, or send thoughts in another field.
func TestCallsOfOtherServers(t *testing.T) {
	t.Parallel()
	chunk := func(delta string) modelserver.Step {
		return modelserver.Raw(`data: {"choices":[{"index":0,"delta":` + delta + `}]}` + "\n\n")
	}
	r := newRig(t, Config{Tools: []Tool{shell("cat", "cat")}},
		modelserver.Stream(
			modelserver.Thought("why"),
			chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"cat","arguments":"{\"n\":1}"}}]}`),
			chunk(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"cat","arguments":"{\"n\":2}"}}]}`),
			chunk(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"cat","arguments":"   "}}]}`),
			modelserver.Finish("stop")),
		modelserver.Stream(chunk(`{"tool_calls":[{"index":0,"function":{"name":"cat","arguments":"{}"}}]}`)),
		text("ok"))
	r.must(turn("go"))
	r.wasAsked(3, `
user: go
assistant:  a=cat({"n":1}) b=cat({"n":2}   )
tool: {"n":1} =a
tool: {"n":2} =b
assistant:  call00001=cat({})
tool: {} =call00001`)
	if body := string(r.model.Requests()[1].Body); !strings.Contains(body, `"reasoning_content":"why"`) {
		t.Errorf("the thoughts did not go back with the calls: %s", body)
	}
}

func TestWrongCallsAreToldToTheModel(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Tools: []Tool{shell("cat", "cat")}},
		modelserver.Stream(modelserver.Call("c1", "cat", `{"a":`), modelserver.Call("c2", "no such", `{}`), modelserver.Call("c3", "cat", `[1]`)),
		text("sorry"))
	r.must(turn("go"))
	r.told(`
tool_start: c1 cat "{\"a\":"
tool_end: c1 the arguments are not a JSON object (unexpected end of JSON input): {"a":
tool_start: c2 no_such {}
tool_end: c2 there is no tool named "no such"
tool_start: c3 cat [1]
tool_end: c3 the arguments are not a JSON object (json: cannot unmarshal array into Go value of type map[string]json.RawMessage): [1]
text: sorry`)
	got := r.asked(2)
	for _, want := range []string{`c1=cat({}) c2=no_such({}) c3=cat({"input":[1]})`, `tool: Error: there is no tool named "no such" =c2`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
}

func TestReplyAfterTheLastToolRound(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{ToolRounds: 2, Tools: []Tool{shell("cat", "cat")}})
	r.model.Otherwise(func(q modelserver.Request) modelserver.Response {
		if len(q.Tools) > 0 {
			return call("", "cat", `{}`)
		}
		return text("that is as far as I came")
	})
	r.must(turn("go"))
	r.requests(3)
	if story := r.story(); strings.Count(story, "tool_end") != 2 || !strings.HasSuffix(story, "text: that is as far as I came") {
		t.Error(story)
	}
}

func TestToolRounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{ToolRounds: 2, Tools: []Tool{shell("cat", "cat")}})
	r.model.Otherwise(func(modelserver.Request) modelserver.Response { return call("", "cat", `{}`) })
	r.says(r.run(turn("go")), false, "exceeded 2 tool rounds", "tool_rounds of TURNSTILE_MODEL_FILE")
	r.requests(3)
	if n := strings.Count(r.story(), "tool_end"); n != 2 {
		t.Errorf("%d tools ran", n)
	}
}

func TestHowAReplyEndsDecidesTheTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps []modelserver.Step
		story string
		err   string
	}{
		"length":         {[]modelserver.Step{modelserver.Text("half a"), modelserver.Finish("length")}, "text: half a\nnotice: The model's reply was truncated: it reached the limit of its length.", ""},
		"only thoughts":  {[]modelserver.Step{modelserver.Thought("hm"), modelserver.Finish("length")}, "thought: hm", "raise max_tokens of TURNSTILE_MODEL_FILE"},
		"content filter": {[]modelserver.Step{modelserver.Text("you"), modelserver.Finish("content_filter")}, "text: you", "content filter"},
		"half a call":    {[]modelserver.Step{modelserver.Raw(callPieces(`{"index":0,"id":"a"}`)), modelserver.Finish("content_filter")}, "", "content filter"},
		"refusal":        {[]modelserver.Step{modelserver.Delta("refusal", "I can", "not.")}, "text: I cannot.", ""},
		"cut after all":  {[]modelserver.Step{modelserver.Text("all"), modelserver.Raw(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"), modelserver.Cut()}, "text: all", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{}, modelserver.Stream(c.steps...))
			err := r.run(turn("go"))
			if c.err != "" {
				r.says(err, false, c.err)
			} else if err != nil {
				t.Error(err)
			}
			r.told(c.story)
			r.requests(1)
		})
	}
}

func TestAttachments(t *testing.T) {
	t.Parallel()
	png := session.Attachment{Name: "a.png", Mime: "image/png", URL: "https://x.test/a.png"}
	tn := turn("look", "and")
	tn.Messages[0].Attachments = []session.Attachment{
		png, {Name: "b.pdf", Mime: "application/pdf", URL: "https://x.test/b.pdf", Size: 12}, {Name: "c.png", Mime: "image/png", Path: "/c.png"},
		{Name: "d.png", Mime: "image/png", URL: "s3://x/d.png"},
	}
	old := user("before")
	old.Attachments = []session.Attachment{png}
	tn.History = []session.Entry{old, assistant("nice")}
	r := newRig(t, Config{}, text("ok"), modelserver.Error(http.StatusBadRequest, "invalid_image_url", "Could not fetch the image."), text("ok"))
	r.must(tn)
	r.wasAsked(1, `
user: before <https://x.test/a.png>
assistant: nice
user: look

[Attachment: b.pdf (application/pdf, 12 bytes): https://x.test/b.pdf]

[Attachment: c.png (image/png): /c.png]

[Attachment: d.png (image/png): s3://x/d.png]

and <https://x.test/a.png>`)
	// An image that no longer exists must not block the session.
	r.must(&agent.Turn{History: tn.History, Messages: turn("next").Messages})
	r.wasAsked(3, `
user: before

[Attachment: a.png (image/png): https://x.test/a.png]
assistant: nice
user: next`)
	if len(r.slept) > 0 {
		t.Errorf("slept %v", r.slept)
	}
}

func TestAnswerWithoutEnd(t *testing.T) {
	t.Parallel()
	piece := strings.Repeat("x", 400)
	for name, step := range map[string]modelserver.Step{
		"text": modelserver.Text(piece, piece, piece), "thoughts": modelserver.Thought(piece, piece, piece), "calls": modelserver.Call("c1", "x", piece, piece, piece),
		"empty pieces": modelserver.Call("c1", "x", make([]string, 100)...),
	} {
		r := newRig(t, Config{}, modelserver.Stream(step))
		r.agent.maxCompletion = 1000
		err := r.run(turn("go"))
		r.says(err, false, "is too long")
		r.requests(1)
		if name == "text" && len(r.story()) < 1000 {
			t.Errorf("what came is not kept: %s", r.story())
		}
	}
}
