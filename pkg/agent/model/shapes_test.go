package model

import (
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// delta is an event with this delta.
func delta(d string) string { return `data: {"choices":[{"delta":` + d + `}]}` + "\n\n" }

// pieces of calls are events with these tool_calls.
func callPieces(all ...string) (stream string) {
	for _, p := range all {
		stream += delta(`{"tool_calls":[` + p + `]}`)
	}
	return stream
}

const (
	ended     = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	calledAll = `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
	isOver    = "data: [DONE]\n\n"
	none      = "nothing" // the reply of a shape that is an error of the response, which is asked again
)

// shapes are what servers send. reply is the text that comes of it, or the calls as the next request repeats them.
var shapes = []struct {
	name, source string
	kind         string // the content type; "" is that of a stream
	body         string
	reply        string
}{
	{"no finish_reason", "case 14", "", delta(`{"content":"hello"}`) + isOver, "hello"},
	{"finish_reason null and empty", "case 14", "", `data: {"choices":[{"delta":{"content":"hello"},"finish_reason":null}]}` + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":""}]}` + "\n\n" + isOver, "hello"},
	{"no end at all", "case 14", "", delta(`{"content":"hel"}`), none},
	{"a reason in each chunk", "RESULTS, hold", "", `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}` + "\n\n", "ab"},
	{"a reason of Gemini's", "case 24", "", delta(`{"content":"a"}`) + strings.Replace(ended, "stop", "STOP", 1), "a"},
	{"an unknown reason", "case 24", "", delta(`{"content":"a"}`) + strings.Replace(ended, "stop", "tired", 1), none},
	{"a failing reason", "case 24", "", delta(`{"content":"a"}`) + strings.Replace(ended, "stop", "network_error", 1), none},
	{"a reason that is no text", "case 24", "", delta(`{"content":"a"}`) + `data: {"choices":[{"delta":{},"finish_reason":3}]}` + "\n\n", none},

	{"no last blank line", "case 15", "", delta(`{"content":"hello"}`) + strings.TrimRight(ended, "\n"), "hello"},
	{"no blank lines", "case 15", "", strings.ReplaceAll(delta(`{"content":"hel"}`)+delta(`{"content":"lo"}`)+ended+isOver, "\n\n", "\n"), "hello"},
	{"CR LF", "case 15", "", strings.ReplaceAll(delta(`{"content":"hello"}`)+ended, "\n", "\r\n"), "hello"},
	{"CR", "case 15", "", strings.ReplaceAll(delta(`{"content":"hello"}`)+ended, "\n", "\r"), "hello"},
	{"a byte order mark", "case 15", "", "\ufeff" + delta(`{"content":"hel"}`) + delta(`{"content":"lo"}`) + ended, "hello"},
	{"a stream that is called JSON", "case 15", "application/json", delta(`{"content":"hello"}`) + ended, "hello"},
	{"a stream that is called HTML", "case 15", "text/html", delta(`{"content":"hello"}`) + ended, "hello"},
	{"a whole completion", "case 15", "application/json", `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`, "hello"},
	{"a whole completion that is called a stream", "case 15", "", "\n" + `{"choices":[{"message":{"content":"hello"}}]}`, "hello"},
	{"a whole completion as an event", "case 15", "", `data: {"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}` + "\n\n", "hello"},
	{"deltas, then the whole", "case 15", "", delta(`{"content":"hello"}`) + `data: {"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}` + "\n\n", "hello"},

	{"error null", "case 51, litellm PR#32237", "", `data: {"error":null,"choices":[{"error":null,"delta":{"content":"hello"}}]}` + "\n\n" + ended, "hello"},
	{"error {}", "case 51", "", `data: {"error":{},"choices":[{"delta":{"content":"hello"}}]}` + "\n\n" + ended, "hello"},
	{"error empty", "case 51", "", `data: {"error":"","choices":[{"delta":{"content":"hello"}}]}` + "\n\n" + ended, "hello"},
	{"an error at the top, with a reason", "OpenRouter", "", delta(`{"content":"a"}`) + `data: {"error":{"code":502,"message":"x"},"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n", none},
	{"an error in a choice", "case 24", "", delta(`{"content":"a"}`) + `data: {"choices":[{"delta":{},"error":{"code":502,"message":"x"},"finish_reason":"stop"}]}` + "\n\n", none},
	{"an error after the reason", "a review", "", delta(`{"content":"a"}`) + ended + `data: {"error":{"code":500,"message":"x"}}` + "\n\n", none},
	{"a call, its reason, and an error", "a review", "", callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`) + calledAll + `data: {"error":{"code":500,"message":"x"}}` + "\n\n", none},
	{"an error in a 200", "case 57, aider#3550", "application/json", `{"error":{"code":429,"message":"slow down"}}`, none},
	{"error_type", "case 58, hermes-agent PR#86635", "", `data: {"choices":null,"error_type":"overloaded"}` + "\n\n" + isOver, none},

	{"content null", "RESULTS, hold", "", delta(`{"content":null}`) + delta(`{"content":"hello"}`) + `data: {"choices":[{"delta":null}]}` + "\n\n" + ended, "hello"},
	{"content in parts", "case 52, litellm#16272", "", delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`) + delta(`{"content":[{"type":"text","text":"hel"}]}`) + delta(`{"content":"lo"}`) + ended, "hello"},
	{"content that is unknown", "RESULTS, C", "", delta(`{"content":{"x":1}}`) + ended, none},
	{"a part that is unknown", "RESULTS, C", "", delta(`{"content":[{"type":"video"}]}`) + ended, none},
	{"a surrogate pair in two pieces", "case 6", "", delta(`{"content":"\ud83d"}`) + delta(`{"content":"\uDE00 \\ud83d"}`) + ended, "\U0001F600 \\ud83d"},
	{"nothing", "case 53, hermes-agent#34452", "", delta(`{"role":"assistant","content":""}`) + ended, none},

	{"calls without ids, with one index", "case 13", "", callPieces(`{"index":0,"id":"","function":{"name":"clock","arguments":"{}"}},{"index":0,"id":"","function":{"name":"echo_args","arguments":"{\"a\":1}"}}`) + calledAll, `clock({}) echo_args({"a":1})`},
	{"such calls without arguments", "case 13", "", callPieces(`{"index":0,"id":"","function":{"name":"clock","arguments":""}},{"index":0,"id":"","function":{"name":"echo_args"}}`) + calledAll, `clock({}) echo_args({})`},
	{"such calls in two chunks", "case 13", "", callPieces(`{"index":0,"function":{"name":"clock"}}`, `{"index":0,"function":{"name":"echo_args"}}`) + calledAll, `clock({}) echo_args({})`},
	{"calls without an index", "case 13", "", callPieces(`{"id":"a","function":{"name":"clock","arguments":"{}"}}`, `{"id":"b","function":{"name":"echo_args","arguments":"{\"a\""}}`, `{"function":{"arguments":":1}"}}`) + calledAll, `clock({}) echo_args({"a":1})`},
	{"two of one tool, ids differ", "TestCallsOfOtherServers", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":1}"}}`, `{"index":0,"id":"b","function":{"name":"echo_args","arguments":"{\"a\":2}"}}`) + calledAll, `echo_args({"a":1}) echo_args({"a":2})`},
	{"one id for two calls", "issue, ids repeated", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":1}"}}`, `{"index":1,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":1}"}}`) + calledAll, `echo_args({"a":1}) echo_args({"a":1})`},
	{"a new id in each piece", "case 27", "", callPieces(`{"index":0,"id":"a1","function":{"name":"echo_args","arguments":""}}`, `{"index":0,"id":"a2","function":{"arguments":"{\"a\""}}`, `{"index":0,"id":"a3","function":{"arguments":":1}"}}`) + calledAll, `echo_args({"a":1})`},
	{"a new id and the name in each piece", "case 27", "", callPieces(`{"index":0,"id":"a1","function":{"name":"echo_args","arguments":"{\"a\""}}`, `{"index":0,"id":"a2","function":{"name":"echo_args","arguments":":1}"}}`) + calledAll, `echo_args({"a":1})`},
	{"the call again at the end", "issue, ids repeated", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":1}"}}`, `{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":1}"}}`) + calledAll, `echo_args({"a":1})`},
	{"a name in pieces", "case 54, continue PR#5849", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_"}}`, `{"index":0,"function":{"name":"args","arguments":"{\"a\":1}"}}`) + calledAll, `echo_args({"a":1})`},
	{"a name in each piece", "hermes-agent PR#11984", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\""}}`, `{"index":0,"id":"a","function":{"name":"echo_args","arguments":":1}"}}`) + calledAll, `echo_args({"a":1})`},
	{"arguments that are an object", "case 17", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":{"a":1}}}`) + calledAll, `echo_args({"a":1})`},
	{"arguments null, then a text", "codex#7628", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":null}}`, `{"index":0,"function":{"name":"","arguments":"{\"a\":1}"}}`) + calledAll, `echo_args({"a":1})`},
	{"a surrogate pair in two pieces of arguments", "case 6", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":\"\ud83d"}}`, `{"index":0,"function":{"arguments":"\ude00\"}"}}`) + calledAll, "echo_args({\"a\":\"\U0001F600\"})"},
	{"calls that end with stop", "litellm#35663", "", callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`) + ended, `clock({})`},
	{"a call and [DONE]", "case 14", "", callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`) + isOver, `clock({})`},
	{"a call and a failing reason", "case 24", "", callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`) + strings.Replace(ended, "stop", "error", 1), none},
	{"a call and an error", "case 24", "", callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`) + `data: {"error":"x"}` + "\n\n", none},
	{"a null, and an empty piece, for a call", "a review", "", delta(`{"content":"hello","tool_calls":[null,{"index":0,"function":{"arguments":""}}]}`) + ended, "hello"},
	{"a call that is no object", "a review", "", callPieces(`5`) + calledAll, none},
	{"a call without a name", "a review", "", callPieces(`{"index":0,"id":"a","type":"custom","custom":{"name":"clock"}}`) + calledAll, none},
	{"a call without a name before another in one list", "a review", "", callPieces(`{"index":0,"function":{"arguments":"{}"}},{"index":0,"function":{"name":"clock","arguments":"{}"}}`) + calledAll, none},
	{"a call without a name before another", "a review", "", callPieces(`{"index":0,"id":"a","type":"custom","custom":{"name":"x"}}`, `{"index":0,"id":"b","function":{"name":"clock","arguments":"{}"}}`) + calledAll, none},
	{"a call without a name after another in one list", "a review", "", callPieces(`{"id":"a","function":{"name":"clock","arguments":"{}"}},{"id":"b","type":"custom","custom":{"name":"x"}}`) + calledAll, none},
	{"a name after the arguments", "a review", "", callPieces(`{"index":0,"id":"a","function":{"arguments":"{}"}}`, `{"index":0,"function":{"name":"clock"}}`) + calledAll, `clock({})`},
	{"the call again with a new id, without arguments", "a review", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":1}"}}`, `{"index":0,"id":"b","function":{"name":"echo_args","arguments":""}}`) + calledAll, `echo_args({"a":1})`},
	{"the call again with a new id", "a review", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":1}"}}`, `{"index":0,"id":"b","function":{"name":"echo_args","arguments":"{\"a\": 1}"}}`) + calledAll, `echo_args({"a":1})`},
	{"the call again in another spelling", "a review", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":\"\u00fc\",\"b\":1.0}"}}`, `{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"b\":1,\"a\":\"\\u00fc\"}"}}`) + calledAll, "echo_args({\"a\":\"\u00fc\",\"b\":1.0})"},
	{"other calls whose numbers are long", "a review", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":9007199254740992}"}}`, `{"index":0,"id":"b","function":{"name":"echo_args","arguments":"{\"a\":9007199254740993}"}}`) + calledAll, `echo_args({"a":9007199254740992}) echo_args({"a":9007199254740993})`},
	{"the call again without an id", "a review", "", callPieces(`{"function":{"name":"echo_args","arguments":"{\"a\":1}"}}`, `{"function":{"name":"echo_args","arguments":"{\"a\":1}"}}`) + calledAll, `echo_args({"a":1})`},
	{"two equal calls in one list", "a review", "", callPieces(`{"function":{"name":"clock","arguments":"{}"}},{"function":{"name":"clock","arguments":"{}"}}`) + calledAll, `clock({}) clock({})`},
	{"two equal calls without an index", "a review", "", callPieces(`{"id":"a","function":{"name":"clock","arguments":"{}"}}`, `{"id":"b","function":{"name":"clock","arguments":"{}"}}`) + calledAll, `clock({}) clock({})`},
	{"arguments that begin as {}", "a review", "", callPieces(`{"index":0,"id":"a","function":{"name":"echo_args","arguments":{}}}`, `{"index":0,"id":"a","function":{"name":"echo_args","arguments":"{\"a\":1}"}}`) + calledAll, `echo_args({"a":1})`},
	{"function_call", "a review", "", delta(`{"function_call":{"name":"echo_args","arguments":"{\"a\""}}`) + delta(`{"function_call":{"name":"","arguments":":1}"}}`) + strings.Replace(ended, "stop", "function_call", 1), `echo_args({"a":1})`},
	{"the text null as a reason", "DashScope", "", `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"null"}]}` + "\n\n" + ended, "a"},
	{"a failing reason, then a good one", "a review", "", callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`) + strings.Replace(ended, "stop", "error", 1) + calledAll, none},
	{"a call and an event of an error", "a review", "", callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`) + calledAll + "event: error\n" + `data: {"reason":"overloaded"}` + "\n\n", none},
	{"a call and a code", "a review", "", callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`) + calledAll + `data: {"code":"1305","msg":"busy"}` + "\n\n", none},
	{"an error in a delta", "a review", "", `data: {"choices":[{"delta":{"content":"a","error":{"message":"x"}},"finish_reason":"stop"}]}` + "\n\n", none},
	{"a chunk a line, without an end", "a review", "", `{"choices":[{"delta":{"content":"hel"}}]}` + "\n", none},
	{"a message after a delta of the role", "a review", "", delta(`{"role":"assistant","content":""}`) + `data: {"choices":[{"delta":{},"message":{"content":"hello"},"finish_reason":"stop"}]}` + "\n\n", "hello"},
	{"legacy text", "a review", "", `data: {"choices":[{"text":"hel"}]}` + "\n\n" + `data: {"choices":[{"text":"lo","finish_reason":"stop"}]}` + "\n\n", "hello"},
	{"[DONE] with spaces", "a review", "", delta(`{"content":"hello"}`) + "data:  [DONE] \n\n", "hello"},
	{"data that is empty", "a review", "", "data: \n\n" + delta(`{"content":"hello"}`) + ended, "hello"},
	{"a byte order mark in the middle", "a review", "", delta(`{"content":"hel"}`) + "\ufeff" + delta(`{"content":"lo"}`) + ended, "hello"},
	{"a surrogate pair in two lists of parts", "a review", "", delta(`{"content":[{"type":"text","text":"\ud83d"}]}`) + delta(`{"content":[{"type":"text","text":"\ude00"}]}`) + ended, "\U0001F600"},
	{"a part with thoughts as its text", "a review", "", delta(`{"content":[{"type":"reasoning","text":"hm"}]}`) + ended, none},
	{"a name that is a number", "RESULTS, C", "", callPieces(`{"index":0,"id":"a","function":{"name":5}}`) + calledAll, none},
}

// What a server sends is understood, or an error of its response. Then no tool runs.
func TestShapes(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			kind := s.kind
			if kind == "" {
				kind = "text/event-stream"
			}
			r := newRig(t, Config{MaxRetries: -1, Tools: []Tool{shell("clock", "echo 12"), shell("echo_args", "cat")}}, modelserver.Plain(200, kind, s.body))
			r.model.Otherwise(func(q modelserver.Request) modelserver.Response {
				if strings.Contains(s.reply, "(") || len(q.Messages) == 1 && s.name == "nothing" {
					return text("ok")
				}
				return modelserver.Plain(400, "", "no")
			})
			err := r.run(turn("go"))
			requests := r.model.Requests()
			switch {
			case s.name == "nothing":
				expect.OK(t, err)
				r.requests(2)
				return
			case s.reply == none:
				if err == nil || strings.Contains(r.story(), "tool_start") {
					t.Errorf("%v, %s", err, r.story())
				}
				r.requests(1)
				return
			}
			expect.OK(t, err)
			var said, calls []string
			for _, e := range r.events {
				if e.Type == session.EventText {
					said = append(said, e.Text)
				}
			}
			for _, q := range requests[len(requests)-1:] {
				for _, m := range q.Messages {
					for _, c := range m.ToolCalls {
						calls = append(calls, c.Function.Name+"("+c.Function.Arguments+")")
					}
				}
			}
			got := strings.Join(said, "")
			if len(calls) > 0 {
				got = strings.Join(calls, " ")
			}
			expect.Equal(t, s.source, got, s.reply)
		})
	}
}

// The model learns of arguments that are no object, and of a call that the limit of a reply may have cut. The tool
// does not run.
func TestCallsThatDoNotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, told string }{
		"a list":               {callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":["A"]}}`) + calledAll, "not a JSON object"},
		"truncated":            {callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{\"a\":"}}`) + calledAll, "not a JSON object"},
		"no name at the limit": {callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`, `{"index":1,"id":"b"}`) + strings.Replace(ended, "stop", "length", 1), "was truncated"},
		"at the limit":         {callPieces(`{"index":0,"id":"a","function":{"name":"clock","arguments":"{}"}}`) + strings.Replace(ended, "stop", "length", 1), "was truncated"},
		"no such a tool":       {callPieces(`{"index":0,"id":"a","function":{"name":"no_","arguments":""}}`, `{"index":0,"function":{"name":"such","arguments":"{}"}}`) + calledAll, `no tool named "no_such"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{Tools: []Tool{shell("clock", "echo it ran")}}, modelserver.Plain(200, "text/event-stream", c.body), text("ok"))
			r.must(turn("go"))
			if last := r.model.Requests()[1].Last(); !strings.HasPrefix(last, "Error: ") || !strings.Contains(last, c.told) {
				t.Error(last)
			}
		})
	}
}

// A connection that stays open after the end of a reply, and one with comments or pings only, end.
func TestNothingButComments(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{MaxRetries: -1}, modelserver.Stream(modelserver.Raw(": ping\n\n"), modelserver.Hang()))
	r.agent.silence = 1
	r.says(r.run(turn("go")), true, "no data for too long")
	r = newMessages(t, Config{MaxRetries: -1}, modelserver.Stream(modelserver.Raw("event: ping\ndata: {\"type\":\"ping\"}\n\n"), modelserver.Hang()))
	r.agent.silence = 1
	r.says(r.run(turn("go")), true, "no data for too long")
	r = newRig(t, Config{}, modelserver.Stream(modelserver.Text("hello"), modelserver.Raw(ended), modelserver.Raw(": ping\n\n"), modelserver.Hang()))
	r.agent.afterEnd = 1
	r.must(turn("go"))
	r.told("text: hello")
}

// Usage is read wherever it is.
func TestUsageAnywhere(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"after the reason": ended + `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}` + "\n\n",
		"Kimi's":           `data: {"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":7,"completion_tokens":2}}]}` + "\n\n",
		"Groq's":           `data: {"choices":[{"delta":{},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":2}}}` + "\n\n",
		"texts":            ended + `data: {"choices":[],"usage":{"prompt_tokens":"7","completion_tokens":"2","prompt_tokens_details":{"cached_tokens":null}}}` + "\n\n",
		"null, then a sum": `data: {"choices":[],"usage":null}` + "\n\n" + `data: {"choices":[],"usage":{"prompt_tokens":7.0,"completion_tokens":2}}` + "\n\n" + ended,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{}, modelserver.Plain(200, "text/event-stream", delta(`{"content":"hello"}`)+body))
			r.must(turn("go"))
			if !strings.Contains(r.story(), "InputTokens:7 CachedTokens:0 OutputTokens:2") {
				t.Error(r.story())
			}
		})
	}
}
