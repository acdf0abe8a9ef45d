package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// newMessages is a rig with the provider anthropic.
func newMessages(t *testing.T, config Config, script ...modelserver.Response) *rig {
	t.Helper()
	config.Provider, config.Key = providerAnthropic, key
	return newRig(t, config, script...)
}

// streamError is an error in a stream, after these steps.
func streamError(kind, message string, steps ...modelserver.Step) modelserver.Response {
	return modelserver.Stream(append(steps,
		modelserver.Raw(fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":%q,\"message\":%q}}\n\n", kind, message)), modelserver.Cut())...)
}

func refusedWith(status int, kind, message string) modelserver.Response {
	return modelserver.Plain(status, "application/json", fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, message))
}

// A whole request, with its headers.
func TestMessagesRequest(t *testing.T) {
	t.Parallel()
	add := shell("add", "cat")
	add.Parameters = []byte(`{"type":"object","required":["a"],"properties":{"b":{"enum":["<",null]},"a":{"maximum":9007199254740991}}}`)
	r := newMessages(t, Config{SystemPrompt: "be kind", Thinking: thinkAdaptive, Temperature: ptr(0.5), Tools: []Tool{add}},
		modelserver.Stream(modelserver.Thought("h", "m"), modelserver.Text("let me <see>"), modelserver.Call("c 1", "add", `{"a":`, `1}`)), text("3"))
	tn := turn("now")
	tn.Note, tn.TraceParent = "[System note: y]", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	tn.Messages[0].Attachments = []session.Attachment{
		{Name: "i", Mime: "image/png", URL: "https://x.test/a.png?b=1&c=2"}, {Name: "d", Mime: "image/jpg", URL: "data:image/jpg;base64,AAAA"},
		{Name: "n", Mime: "image/bmp", URL: "data:image/bmp;base64,AAAA"},
	}
	tn.History = []session.Entry{assistant("looking"), used(session.ToolUse{Name: "ls", CallID: "a", Input: []byte(`{"d":"/"}`), Output: []byte(`"x"`)}), user("so")}
	r.must(tn)
	var bodies []string
	for _, q := range r.model.Requests() {
		expect.Equal(t, "key and version", q.Header.Get("X-Api-Key")+q.Header.Get("Anthropic-Version")+q.Header.Get("Authorization"), key+"2023-06-01")
		expect.Equal(t, "trace", q.Header.Get("Traceparent"), tn.TraceParent)
		bodies = append(bodies, string(q.Body))
	}
	mark := `"cache_control":{"type":"ephemeral"}`
	first := `{"max_tokens":32000,"messages":[` +
		`{"content":[{"text":"[The beginning of this conversation is left out here.]","type":"text"}],"role":"user"},` +
		`{"content":[{"text":"looking","type":"text"},{"id":"a","input":{"d":"/"},"name":"ls","type":"tool_use"}],"role":"assistant"},` +
		`{"content":[{"tool_use_id":"a","content":[{"text":"x","type":"text"}],"type":"tool_result"},{"text":"so",` + mark + `,"type":"text"},` +
		`{"text":"[System note: y]\n\nnow\n\n[Attachment: n (image/bmp)]","type":"text"},` +
		`{"source":{"url":"https://x.test/a.png?b=1\u0026c=2","type":"url"},"type":"image"},` +
		`{"source":{"data":"AAAA","media_type":"image/jpeg","type":"base64"},` + "MARK" + `"type":"image"}],"role":"user"}`
	rest := `],"model":"m","system":[{"text":"be kind",` + mark + `,"type":"text"}],"thinking":{"display":"summarized","type":"adaptive"},` +
		`"tools":[{"input_schema":{"properties":{"a":{"maximum":9007199254740991},"b":{"enum":["\u003c",null]}},"required":["a"],"type":"object"},` +
		`"name":"add","description":"for tests"}],"stream":true}`
	expect.Equal(t, "first request", bodies[0], strings.Replace(first, "MARK", mark+",", 1)+rest)
	id := fittingID("c 1")
	expect.Equal(t, "second request", bodies[1], strings.Replace(first, "MARK", "", 1)+
		`,{"content":[{"signature":"signature of block 0","thinking":"hm","type":"thinking"},{"text":"let me \u003csee\u003e","type":"text"},`+
		`{"id":"`+id+`","input":{"a":1},"name":"add","type":"tool_use"}],"role":"assistant"},`+
		`{"content":[{"tool_use_id":"`+id+`",`+mark+`,"content":[{"text":"{\"a\":1}","type":"text"}],"type":"tool_result"}],"role":"user"}`+rest)
	r.told("thought: h\nthought: m\ntext: let me <see>\ntool_start: c 1 add {\"a\":1}\ntool_end: c 1 {\"a\":1}\ntext: 3")
}

// Thoughts hold at their places only: between the texts and calls with which they came.
func TestThoughtsKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	r := newMessages(t, Config{Tools: []Tool{shell("cat", "cat")}},
		modelserver.Stream(modelserver.Thought("one"), modelserver.Text("ä"), modelserver.Call("c1", "cat", `{}`), modelserver.Thought("two"),
			modelserver.Text("b"), modelserver.Call("c2", "cat", `{}`)), text("done"))
	r.must(turn("go"))
	var q struct {
		Messages []struct {
			Content []struct{ Type, Text, Thinking, Signature, ID string }
		}
	}
	expect.OK(t, json.Unmarshal(r.model.Requests()[1].Body, &q))
	expect.Equal(t, "blocks", fmt.Sprint(q.Messages[1].Content), "[{thinking  one signature of block 0 } {text ä   } {tool_use    c1} "+
		"{thinking  two signature of block 3 } {text b   } {tool_use    c2}]")
	blocks := replyBlocks(message{text: "changed", from: "here", fields: fields{piecesField: []byte(`[{"type":"thinking","thought":"x"},{"type":"text","size":2}]`)}}, "here")
	expect.Equal(t, "blocks of a reply that is another one now", len(blocks), 1)
}

// Thoughts go back in later turns, to the model that had them.
func TestThoughtsInLaterTurns(t *testing.T) {
	t.Parallel()
	r := newMessages(t, Config{Tools: []Tool{shell("cat", "cat")}}, modelserver.Stream(modelserver.Thought("why"), modelserver.Call("c1", "cat", `{}`)), text("done"), text("yes"))
	c := work(r, r.agent)
	ends(r, c, say(r, c, turnstile.Message{Text: "go"}), session.StatusDone)
	ends(r, c, say(r, c, turnstile.Message{Text: "sure?"}), session.StatusDone)
	if body := string(r.model.Requests()[2].Body); !strings.Contains(body, `{"signature":"signature of block 0","thinking":"why","type":"thinking"},{"id":"c1"`) {
		t.Error(body)
	}
}

// Each event that a stream may have, as the API's documentation shows them.
func TestMessagesStream(t *testing.T) {
	t.Parallel()
	event := func(name, data string) modelserver.Step {
		return modelserver.Raw("event: " + name + "\ndata: {\"type\":\"" + name + "\"," + data + "}\n\n")
	}
	r := newMessages(t, Config{Tools: []Tool{shell("cat", "cat")}}, modelserver.Stream(
		event("message_start", `"message":{"model":"m-1","usage":{"input_tokens":5,"cache_read_input_tokens":30,"cache_creation_input_tokens":7,"output_tokens":1}}`),
		event("content_block_start", `"index":0,"content_block":{"type":"redacted_thinking","data":"secret"}`), event("content_block_stop", `"index":0`),
		event("content_block_start", `"index":1,"content_block":{"type":"server_tool_use","id":"s","name":"web","input":{}}`),
		event("content_block_delta", `"index":1,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}`),
		event("content_block_start", `"index":2,"content_block":{"type":"tool_use","id":"c1","name":"cat","input":{"whole":9007199254740993}}`),
		event("content_block_start", `"index":3,"content_block":{"type":"tool_use","id":"c2","name":"cat","input":{}}`),
		event("new_event", `"index":3`),
		event("message_delta", `"delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":40}`), event("message_stop", `"x":1`), modelserver.Hang()),
		modelserver.Stream(modelserver.Text("a"), modelserver.Finish("length"), modelserver.UseCached(20, 10, 5)))
	r.must(turn("go"))
	r.told(`
usage: {Model:m-1 InputTokens:42 CachedTokens:30 OutputTokens:40 CostUSD:0 ContextTokens:82 ContextLimit:0}
tool_start: c1 cat {"whole":9007199254740993}
tool_end: c1 {"whole":9007199254740993}
tool_start: c2 cat {}
tool_end: c2 {}
text: a
usage: {Model:m InputTokens:20 CachedTokens:10 OutputTokens:5 CostUSD:0 ContextTokens:25 ContextLimit:0}
notice: The model's reply was truncated: it reached the limit of its length.`)
	if body := string(r.model.Requests()[1].Body); !strings.Contains(body, `[{"data":"secret","type":"redacted_thinking"},{"id":"c1"`) {
		t.Error(body)
	}
}

// What passes is asked again, after the wait that the server wants.
func TestMessagesAreRetried(t *testing.T) {
	t.Parallel()
	r := newMessages(t, Config{MaxRetries: 9}, refusedWith(529, "overloaded_error", "Overloaded").RetryAfter("3"), refusedWith(429, "rate_limit_error", "slow").RetryAfter("7"),
		refusedWith(500, "api_error", "no").RetryAfter("1"), streamError("overloaded_error", "Overloaded"), streamError("api_error", "no", modelserver.Thought("hm")),
		modelserver.CutBefore(), modelserver.Stream(modelserver.Call("c1", "x", `{`), modelserver.Cut()), modelserver.Stream(modelserver.Raw("event: message_start\ndata: {\n\n")),
		modelserver.Stream(modelserver.Cut()), text("there"))
	r.must(turn("go"))
	r.requests(10)
	expect.Equal(t, "waits", fmt.Sprint(r.slept[:3]), fmt.Sprint([]time.Duration{3 * time.Second, 7 * time.Second, time.Second}))
	r = newMessages(t, Config{}, streamError("overloaded_error", "Overloaded", modelserver.Text("half")))
	r.says(r.run(turn("go")), false, "broke off in the middle", "an error in the stream: Overloaded")
	r.requests(1)
}

func TestMessagesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer modelserver.Response
		want   []string
	}{
		{refusedWith(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), []string{"too long for the model m", "/new"}},
		{refusedWith(413, "request_too_large", "Request exceeds the maximum size"), []string{"/new"}},
		{refusedWith(400, "invalid_request_error", "no "+key), []string{"refused the request (HTTP 400: no [the key])"}},
		{refusedWith(401, "authentication_error", "invalid x-api-key"), []string{"refused the key (HTTP 401)", "TURNSTILE_MODEL_KEY"}},
		{refusedWith(403, "permission_error", "no"), []string{"TURNSTILE_MODEL_KEY and TURNSTILE_MODEL"}},
		{refusedWith(404, "not_found_error", "model: m"), []string{"does not know the model m, or does not have the Messages API there", "(HTTP 404: model: m)"}},
		{modelserver.Plain(200, "text/html", "<h1>"), []string{"does not stream the Messages API"}},
		{streamError("invalid_request_error", "prompt is too long: 1 tokens > 0 maximum"), []string{"/new"}},
		{streamError("authentication_error", "no"), []string{"refused the key (HTTP 401)"}},
		{modelserver.Stream(modelserver.Finish("content_filter")), []string{"content filter"}},
	} {
		r := newMessages(t, Config{}, c.answer)
		r.says(r.run(turn("go")), false, c.want...)
		r.requests(1)
	}
	other := modelserver.New(t)
	r := newMessages(t, Config{URL: redirecting(t, func(q *http.Request) string { return other.Root() + q.URL.Path }), MaxRetries: -1})
	r.says(r.run(turn("hello")), true, "it redirects to another server")
	expect.Equal(t, "requests of the other server", len(other.Requests()), 0)
	r = newMessages(t, Config{}, text(strings.Repeat("a", 100), "b"))
	r.agent.maxCompletion = 100
	r.says(r.run(turn("go")), false, "too long")
}

// What a client asks for, in the API's words.
func TestMessagesOfAClient(t *testing.T) {
	t.Parallel()
	yes, no, half := true, false, 0.5
	pick := session.Function{Name: "pick", Strict: &yes}
	for name, c := range map[string]struct {
		config  Config
		request session.ModelRequest
		want    []string
	}{
		"forced":   {Config{Thinking: thinkAdaptive}, session.ModelRequest{Functions: []session.Function{pick}, ToolChoice: []byte(`"required"`), Temperature: &half}, []string{`"temperature":0.5,`, `"tool_choice":{"type":"any"},"tools":[{"input_schema":{"properties":{},"type":"object"},"name":"pick","strict":true,`}},
		"one":      {Config{}, session.ModelRequest{Functions: []session.Function{pick}, ToolChoice: []byte(`{"type":"function","function":{"name":"pick"}}`), Parallel: &no}, []string{`"tool_choice":{"name":"pick","disable_parallel_tool_use":true,"type":"tool"}`}},
		"none":     {Config{}, session.ModelRequest{Functions: []session.Function{pick}, ToolChoice: []byte(`"none"`)}, []string{`"tool_choice":{"type":"none"}`}},
		"single":   {Config{}, session.ModelRequest{Functions: []session.Function{pick}, Parallel: &no}, []string{`"tool_choice":{"disable_parallel_tool_use":true,"type":"auto"}`}},
		"format":   {Config{}, session.ModelRequest{Format: []byte(`{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}}`)}, []string{`"output_config":{"format":{"schema":{"type":"object"},"type":"json_schema"}}`}},
		"settings": {Config{SystemPrompt: "Be kind."}, session.ModelRequest{Instructions: "Be brief.", MaxTokens: 7, Stop: []string{"END"}, TopP: &half}, []string{`{"max_tokens":7,`, `"top_p":0.5`, `"stop_sequences":["END"]`, `[{"text":"Be kind.\n\nBe brief.",`}},
		"budget":   {Config{ThinkingTokens: 2000}, session.ModelRequest{Temperature: &half}, []string{`"thinking":{"budget_tokens":2000,"type":"enabled"}`}},
		"too low":  {Config{ThinkingTokens: 2000}, session.ModelRequest{MaxTokens: 2000, Temperature: &half}, []string{`"temperature":0.5`}},
		"no tools": {Config{}, session.ModelRequest{Brought: session.Brought{Past: append([]session.Entry{user("a")}, calls("c1")...)}}, []string{`"tool_choice":{"type":"none"},"tools":[{"input_schema":{"type":"object"},"name":"pick",`}},
		"its turn": {Config{Thinking: thinkDisabled}, session.ModelRequest{Brought: session.Brought{Past: []session.Entry{user("a"), assistant("b")}}}, []string{`"thinking":{"type":"disabled"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newMessages(t, c.config, text("ok"))
			r.must(asking("go", c.request))
			body := string(r.model.Requests()[0].Body)
			for _, want := range c.want {
				if !strings.Contains(body, want) {
					t.Errorf("%s is not in %s", want, body)
				}
			}
			thinks := strings.Contains(body, `"thinking":{"budget`) || strings.Contains(body, `"adaptive"`)
			if thinks && strings.Contains(body, "temperature") || thinks != (name == "budget") {
				t.Error(body)
			}
		})
	}
	r := newMessages(t, Config{})
	r.says(r.run(asking("go", session.ModelRequest{Format: []byte(`{"type":"json_object"}`)})), false, "use json_schema")
	r.requests(0)
	r = newMessages(t, Config{}, text("ok"))
	r.must(asking("", session.ModelRequest{Brought: session.Brought{Past: []session.Entry{user(" "), assistant("so")}}}))
	r.wasAsked(1, "user: "+leftOut.text+"\nassistant: so\nuser: "+goOn)
}

// After the last round the tools stay in the request, so that its cached beginning stays, and none may be used.
func TestMessagesAfterTheLastRound(t *testing.T) {
	t.Parallel()
	r := newMessages(t, Config{ToolRounds: 1, Tools: []Tool{shell("cat", "cat")}}, call("c1", "cat", `{}`), text("ok"))
	r.must(turn("go"))
	first, last := string(r.model.Requests()[0].Body), string(r.model.Requests()[1].Body)
	_, tools, _ := strings.Cut(first, `"tools":`)
	if !strings.Contains(last, `"tool_choice":{"type":"none"},"tools":`+tools) || !strings.Contains(tools, `"cache_control"`) {
		t.Errorf("%s\n%s", first, last)
	}
}

func TestProviderConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Provider: "x"}, "use openai or anthropic"},
		{Config{Thinking: thinkAdaptive}, "anthropic only"},
		{Config{Provider: providerAnthropic, Thinking: "much"}, "use adaptive or disabled"},
		{Config{Provider: providerAnthropic, Thinking: thinkAdaptive, ThinkingTokens: 2000}, "leave out one"},
		{Config{Provider: providerAnthropic, ThinkingTokens: 1000}, "at least 1024"},
		{Config{Provider: providerAnthropic, ThinkingTokens: 2000, MaxTokens: 2000}, "less than max_tokens, which is 2000"},
		{Config{Provider: providerAnthropic, Temperature: ptr(1.5)}, "at most 1"},
	} {
		c.config.URL, c.config.Model = "http://127.0.0.1:1", "m"
		if _, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	a, err := New(Config{Provider: providerAnthropic, URL: "http://127.0.0.1:1", Model: "m", Instructable: true})
	expect.OK(t, err)
	expect.Equal(t, "traits", a.Traits(), agent.Traits{Steerable: true, Continues: true, Instructable: true})
}
