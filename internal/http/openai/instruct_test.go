package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"turnstile/pkg/agent/model"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
	"turnstile/test/program"
)

// modelled is a rig with a worker whose agent asks a model that follows a script.
func modelled(t *testing.T, instruct bool, script ...modelserver.Response) (*rig, *modelserver.Server) {
	t.Helper()
	r, server := newRig(t), modelserver.New(t, script...)
	r.modelWorker(server, instruct)
	return r, server
}

func (r *rig) modelWorker(server *modelserver.Server, instruct bool) {
	r.Helper()
	a, err := model.New(model.Config{URL: server.URL(), Model: "m", SystemPrompt: "Be kind.", Instructable: instruct, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(r, err)
	r.workerOf(a)
}

// heard are the messages of the n-th request to the model, one a line, and the rest of its body.
func heard(server *modelserver.Server, n int) (messages, rest string) {
	q := server.Requests()[n-1]
	for _, m := range q.Messages {
		messages += m.Role + ": " + m.Text()
		for _, c := range m.ToolCalls {
			messages += fmt.Sprintf(" %s=%s(%s)", c.ID, c.Function.Name, c.Function.Arguments)
		}
		messages += "\n"
	}
	var body map[string]json.RawMessage
	_ = json.Unmarshal(q.Body, &body)
	for _, name := range []string{"model", "messages", "stream", "stream_options"} {
		delete(body, name)
	}
	data, _ := json.Marshal(body)
	return messages, string(data)
}

const (
	calls = "Let me see."
	tools = `[{"type":"function","name":"pick","description":"d","parameters":{"type":"object","properties":{}},"strict":true}]`
)

func picks() modelserver.Response {
	return modelserver.Stream(modelserver.Text(calls), modelserver.Call("c1", "pick", `{"of":`, `"<1>"}`), modelserver.Call("c2", "pick"), modelserver.Use(3, 4))
}

// The client's tools, instructions and settings reach the model, its calls come back, and so do their results.
// Whole, streamed and read again, a response has the same items.
func TestToolsOfAClient(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			t.Parallel()
			r, server := modelled(t, true, picks(), modelserver.Reply("It is one."))
			send := func(body string) map[string]any {
				t.Helper()
				if stream {
					events := r.events(strings.Replace(body, "{", `{"stream":true,`, 1))
					last := events[len(events)-1]
					expect.Equal(t, "end", last["type"], "response.completed")
					r.addsUp(events)
					return last["response"].(map[string]any)
				}
				status, got := r.post("/v1/responses", body)
				expect.Equal(t, "status", status, 200)
				return got
			}
			first := send(`{"conversation":"s","instructions":"Be brief.","input":"go","tools":` + tools + `,"tool_choice":{"type":"function","name":"pick"},
				"temperature":0.5,"top_p":0.25,"max_output_tokens":9,"parallel_tool_calls":true,
				"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}}}`)
			messages, rest := heard(server, 1)
			expect.Equal(t, "messages", messages, "system: Be kind.\n\nBe brief.\nuser: go\n")
			expect.Equal(t, "settings", rest, `{"max_tokens":9,"parallel_tool_calls":true,`+
				`"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}},"temperature":0.5,`+
				`"tool_choice":{"function":{"name":"pick"},"type":"function"},`+
				`"tools":[{"type":"function","function":{"name":"pick","description":"d","parameters":{"properties":{},"type":"object"},"strict":true}}],"top_p":0.25}`)
			echo := func(r map[string]any) string {
				data, _ := json.Marshal([]any{r["instructions"], r["temperature"], r["top_p"], r["max_output_tokens"], r["tool_choice"], r["tools"], r["text"]})
				return string(data)
			}
			expect.Equal(t, "echo", echo(first), `["Be brief.",0.5,0.25,9,{"name":"pick","type":"function"},`+
				`[{"description":"d","name":"pick","parameters":{"properties":{},"type":"object"},"strict":true,"type":"function"}],`+
				`{"format":{"description":null,"name":"n","schema":{"type":"object"},"strict":true,"type":"json_schema"}}]`)
			output := func(r map[string]any) string {
				data, _ := json.Marshal(r["output"])
				return string(data)
			}
			var items []map[string]any
			expect.OK(t, json.Unmarshal([]byte(output(first)), &items))
			if len(items) != 3 || items[1]["type"] != "function_call" || items[1]["call_id"] != "c1" || items[1]["name"] != "pick" || items[1]["arguments"] != `{"of":"<1>"}` || items[2]["arguments"] != "{}" {
				t.Errorf("items %v", items)
			}
			id := first["id"].(string)
			got, err := r.sdk.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
			expect.OK(t, err)
			var again map[string]any
			expect.OK(t, json.Unmarshal([]byte(got.RawJSON()), &again))
			expect.Equal(t, "read again", output(again)+echo(again), output(first)+echo(first))

			second := send(`{"previous_response_id":"` + id + `","input":[{"type":"function_call_output","call_id":"c2","output":"two"},
				{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"one"}]}]}`)
			messages, rest = heard(server, 2)
			expect.Equal(t, "messages", messages, "system: Be kind.\nuser: go\nassistant: "+calls+" c1=pick({\"of\":\"<1>\"}) c2=pick({})\ntool: one\ntool: two\n")
			expect.Equal(t, "settings", rest, "{}")
			expect.Equal(t, "echo", echo(second), `[null,1,1,null,"none",[],{"format":{"type":"text"}}]`)
			sent, err := r.sdk.Responses.InputItems.List(t.Context(), second["id"].(string), responses.InputItemListParams{Order: "asc"})
			expect.OK(t, err)
			var input []string
			for _, item := range sent.Data {
				input = append(input, item.Type+" "+item.CallID+" "+item.Output.OfString)
			}
			expect.List(t, "input items", input, "function_call_output c2 two", "function_call_output c1 one")
			status, refusal := r.post("/v1/responses", `{"previous_response_id":"`+id+`","input":[{"type":"function_call_output","call_id":"c1","output":"again"}]}`)
			if failure, _ := json.Marshal(refusal); status != 400 || !strings.Contains(string(failure), "cannot be continued twice") {
				t.Errorf("a second result: %d %s", status, failure)
			}
		})
	}
}

// A client that keeps the conversation itself sends all of it; in a conversation of the gateway's only what is new counts.
func TestHistoryOfAClient(t *testing.T) {
	t.Parallel()
	r, server := modelled(t, true, modelserver.Reply("a"), modelserver.Reply("b"), modelserver.Reply("c"))
	input := `[{"role":"developer","content":"Be brief."},{"role":"user","content":"go"},{"type":"reasoning","id":"r","summary":[]},
		{"type":"message","role":"assistant","content":[{"type":"output_text","text":"so"}]},
		{"type":"function_call","call_id":"c1","name":"pick","arguments":"{\"n\":1}"},{"type":"mcp_call","id":"m","name":"x"},
		{"type":"mcp_approval_request","id":"q","name":"x","arguments":"{}","server_label":"agent"},{"type":"mcp_approval_response","approval_request_id":"q","approve":true},
		{"type":"function_call_output","call_id":"c1","output":"one"},{"type":"function_call","call_id":"c2","name":"pick","arguments":"{}"},
		{"type":"function_call","call_id":"c3","name":"pick","arguments":"{}"},{"type":"function_call_output","call_id":"c2","output":"two"},
		{"type":"function_call_output","call_id":"c3","output":"three"},{"role":"user","content":"and?"}]`
	status, first := r.post("/v1/responses", `{"input":`+input+`}`)
	expect.Equal(t, "status", status, 200)
	messages, _ := heard(server, 1)
	all := "system: Be kind.\n\nBe brief.\nuser: go\nassistant: so c1=pick({\"n\":1})\ntool: one\nassistant:  c2=pick({}) c3=pick({})\ntool: two\ntool: three\nuser: and?\n"
	expect.Equal(t, "the whole conversation", messages, all)

	status, _ = r.post("/v1/responses", `{"input":"next","previous_response_id":"`+first["id"].(string)+`"}`)
	expect.Equal(t, "status", status, 200)
	messages, _ = heard(server, 2)
	expect.Equal(t, "the session has it now", messages, strings.Replace(all, "\n\nBe brief.", "", 1)+"assistant: a\nuser: next\n")

	status, _ = r.post("/v1/responses", `{"conversation":"s","input":`+input+`}`)
	expect.Equal(t, "status", status, 200)
	messages, _ = heard(server, 3)
	expect.Equal(t, "what is new", messages, "system: Be kind.\n\nBe brief.\nuser: and?\n\n[A result was sent for the call c1, which is not open: one]"+
		"\n\n[A result was sent for the call c2, which is not open: two]\n\n[A result was sent for the call c3, which is not open: three]\n")
}

// The same for chats, which have all roles without a session, and only what is new with one.
func TestToolsOfAChat(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, session := range []string{"", "s"} {
			t.Run(fmt.Sprint("stream ", stream, " session ", session), func(t *testing.T) {
				t.Parallel()
				r, server := modelled(t, true, picks(), modelserver.Reply("It is one."))
				send := func(messages ...sdk.ChatCompletionMessageParamUnion) sdk.ChatCompletionChoice {
					t.Helper()
					p := sdk.ChatCompletionNewParams{Model: "m", Messages: messages, MaxCompletionTokens: sdk.Int(5), Stop: sdk.ChatCompletionNewParamsStopUnion{OfString: sdk.String("END")}}
					expect.OK(t, json.Unmarshal([]byte(`[{"type":"function","function":{"name":"pick","parameters":{"type":"object","properties":{}}}}]`), &p.Tools))
					expect.OK(t, json.Unmarshal([]byte(`{"type":"json_object"}`), &p.ResponseFormat))
					opt := option.WithHeader("X-Turnstile-Session", session)
					if !stream {
						got, err := r.sdk.Chat.Completions.New(t.Context(), p, opt)
						expect.OK(t, err)
						return got.Choices[0]
					}
					var whole sdk.ChatCompletionAccumulator
					s := r.sdk.Chat.Completions.NewStreaming(t.Context(), p, opt)
					for s.Next() {
						whole.AddChunk(s.Current())
					}
					expect.OK(t, s.Err())
					return whole.Choices[0]
				}
				system, user := sdk.SystemMessage("Be brief."), sdk.UserMessage("go")
				first := send(system, user)
				expect.Equal(t, "finish", first.FinishReason, "tool_calls")
				expect.Equal(t, "content", first.Message.Content, calls)
				var got []string
				for _, c := range first.Message.ToolCalls {
					got = append(got, c.ID+" "+c.Function.Name+c.Function.Arguments)
				}
				expect.List(t, "calls", got, `c1 pick{"of":"<1>"}`, "c2 pick{}")
				second := send(system, user, first.Message.ToParam(), sdk.ToolMessage("one", "c1"), sdk.ToolMessage("two", "c2"))
				expect.Equal(t, "end", second.FinishReason+" "+second.Message.Content, "stop It is one.")
				messages, rest := heard(server, 2)
				expect.Equal(t, "messages", messages, "system: Be kind.\n\nBe brief.\nuser: go\nassistant: "+calls+" c1=pick({\"of\":\"<1>\"}) c2=pick({})\ntool: one\ntool: two\n")
				expect.Equal(t, "settings", rest, `{"max_tokens":5,"response_format":{"type":"json_object"},"stop":["END"],`+
					`"tools":[{"type":"function","function":{"name":"pick","parameters":{"properties":{},"type":"object"}}}]}`)
			})
		}
	}
}

// Clients instruct only an agent whose workers all allow it, with a token that may. A plain message needs neither,
// and settings without a text for the model are ignored, as everywhere.
func TestWhoMayInstruct(t *testing.T) {
	t.Parallel()
	tooled := `{"input":"go","conversation":"s","tools":` + tools + `}`
	refused := func(r *rig, what string) {
		t.Helper()
		status, got := r.post("/v1/responses", tooled)
		if failure, _ := json.Marshal(got); status != 400 || !strings.Contains(string(failure), "TURNSTILE_INSTRUCT") {
			t.Errorf("%s: %d %s", what, status, failure)
		}
	}
	t.Run("an agent that takes nothing", func(t *testing.T) {
		t.Parallel()
		r, server := modelled(t, false, modelserver.Reply("plain"))
		refused(r, "tools")
		status, _ := r.post("/v1/responses", `{"input":"go","temperature":2,"tool_choice":"auto"}`)
		expect.Equal(t, "a plain message", status, 200)
		_, rest := heard(server, 1)
		expect.Equal(t, "settings", rest, "{}")
	})
	t.Run("one worker of two", func(t *testing.T) {
		t.Parallel()
		r, server := modelled(t, true)
		r.modelWorker(server, false)
		refused(r, "tools")
	})
	for may, want := range map[string]int{"send read": 400, "send read instruct": 200} {
		t.Run(may, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, tokens(t, "web "+may))
			server := modelserver.New(t)
			server.Otherwise(func(modelserver.Request) modelserver.Response { return modelserver.Reply("x") })
			r.modelWorker(server, true)
			status, got := r.post("/v1/responses", tooled, "Authorization", "Bearer web")
			if status != want {
				t.Errorf("%d %v", status, got)
			}
		})
	}
}

// What a client asks for is checked.
func TestWrongRequestsOfClients(t *testing.T) {
	t.Parallel()
	r, _ := modelled(t, true)
	for part, body := range map[string]string{
		"type \\\"web_search":     `{"input":"x","tools":[{"type":"web_search"}]}`,
		"the function's name":     `{"input":"x","tools":[{"type":"function","name":"a b"}]}`,
		"tool_choice is":          `{"input":"x","tool_choice":"any"}`,
		"A format is":             `{"input":"x","text":{"format":{"type":"xml"}}}`,
		"no such call":            `{"input":[{"type":"function_call_output","call_id":"c","output":"x"},{"role":"assistant","content":"x"},{"role":"user","content":"x"}]}`,
		"Nothing is new":          `{"conversation":"s","input":[{"role":"assistant","content":"x"}]}`,
		"type compaction":         `{"input":[{"type":"compaction","id":"c","encrypted_content":"x"}]}`,
		"or the audio as a file":  `{"input":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"eA==","format":"wav"}}]}]}`,
		"not between 0 and 2":     `{"input":"x","temperature":3}`,
		"stored prompts":          `{"input":"x","prompt":{"id":"p"}}`,
		"type \\\"computer_call":  `{"input":[{"type":"computer_call"}]}`,
		"no call_id":              `{"input":[{"type":"function_call_output","output":"x"}]}`,
		"two functions":           `{"input":"x","tools":[{"type":"function","name":"a"},{"type":"function","name":"a"}]}`,
		"a list of texts or text": `{"input":"x","stop":{}}`,
	} {
		status, got := r.post("/v1/responses", body)
		if failure, _ := json.Marshal(got); status != 400 || !strings.Contains(string(failure), part) && part != "a list of texts or text" {
			t.Errorf("%s: %d %s, want %q", body, status, failure, part)
		}
	}
}

// events posts a request for a stream and returns its events.
func (r *rig) events(body string) (events []map[string]any) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.url+"/v1/responses", strings.NewReader(body))
	expect.OK(r, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: transport(r.T)}).Do(request)
	expect.OK(r, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	expect.OK(r, err)
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			var e map[string]any
			expect.OK(r, json.Unmarshal([]byte(text), &e))
			events = append(events, e)
		}
	}
	return events
}

// addsUp checks that the events of calls build the items of the response's end.
func (r *rig) addsUp(events []map[string]any) {
	r.Helper()
	var done []any
	deltas := map[any]string{}
	for _, e := range events {
		switch e["type"] {
		case "response.function_call_arguments.delta":
			deltas[e["item_id"]] += e["delta"].(string)
		case "response.function_call_arguments.done":
			if deltas[e["item_id"]] != e["arguments"] {
				r.Errorf("deltas %q, done %q", deltas[e["item_id"]], e["arguments"])
			}
		case "response.output_item.done":
			done = append(done, e["item"])
		}
	}
	end, _ := events[len(events)-1]["response"].(map[string]any)
	got, _ := json.Marshal(done)
	want, _ := json.Marshal(end["output"])
	expect.Equal(r, "items", string(got), string(want))
}

// A worker is killed in a tool of its own, which the model has called together with the client's function. The turn
// goes on, its streams stay open, and the client gets its call once.
func TestCallOfATurnThatGoesOn(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	client := r.at(r.url, option.WithMaxRetries(0))
	server := modelserver.New(t)
	server.Otherwise(func(q modelserver.Request) modelserver.Response {
		return modelserver.Stream(modelserver.Text("Both. "), modelserver.Call("c1", "pick", `{"n":1}`), modelserver.Call("c2", "work", "{}"))
	})
	tool := fmt.Sprintf(`cd %q; cat >/dev/null; if [ ! -e begun ]; then touch begun; exec sleep 1000; fi; echo 1`, dir)
	work := func() *program.Process { return worksWith(t, server, dir, tool, true, "TURNSTILE_INSTRUCT=true") }
	worker := work()
	expect.Soon(t, "the worker lives", func() bool {
		n, err := r.redis.ZCard(t.Context(), "asynq:servers").Result()
		return err == nil && n > 0
	})
	p := say("", "go")
	expect.OK(t, json.Unmarshal([]byte(tools), &p.Tools))
	s := client.Responses.NewStreaming(t.Context(), p)
	for s.Next() && s.Current().Type != "response.mcp_call.in_progress" {
	}
	expect.OK(t, s.Err())
	expect.Soon(t, "the tool runs", func() bool {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil
	})
	worker.Signal(syscall.SIGKILL)
	work()
	id := ""
	var calls, items []string
	for s.Next() {
		switch e := s.Current(); e.Type {
		case "response.function_call_arguments.done":
			calls = append(calls, e.Arguments)
		case "response.completed":
			id = e.Response.ID
			for _, item := range e.Response.Output {
				items = append(items, item.Type+" "+item.ID)
			}
		}
	}
	expect.OK(t, s.Err())
	expect.List(t, "calls", calls, `{"n":1}`)
	got, err := client.Responses.Get(t.Context(), id, responses.ResponseGetParams{})
	expect.OK(t, err)
	var stored []string
	for _, item := range got.Output {
		stored = append(stored, item.Type+" "+item.ID)
	}
	expect.List(t, "items", stored, items...)
	expect.Equal(t, "requests", len(server.Requests()), 1)
	if len(items) != 3 || !strings.HasPrefix(items[2], "function_call ") {
		t.Errorf("items %v", items)
	}
	input := []any{map[string]any{"role": "user", "content": "go"}}
	for _, item := range got.Output {
		input = append(input, map[string]any{"type": "item_reference", "id": item.ID})
	}
	input = append(input, map[string]any{"type": "function_call_output", "call_id": "c1", "output": "one"})
	body, err := json.Marshal(map[string]any{"input": input})
	expect.OK(t, err)
	status, _ := r.post("/v1/responses", string(body))
	expect.Equal(t, "status", status, 200)
	messages, _ := heard(server, 2)
	expect.Equal(t, "what references stand for", messages, "user: go\nassistant: Both.  c1=pick({\"n\":1})\ntool: one\n")
}
