package openai_test

import (
	"fmt"
	"net/http"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// Results reach their calls in whatever rows clients send them: between the calls, one request for each, all of them again,
// after the response before the one with the calls, as the AI SDK names it, and two calls with one ID in their order.
func TestRowsOfCallsAndResults(t *testing.T) {
	t.Parallel()
	const (
		u  = `{"role":"user","content":"go"}`
		c1 = `{"type":"function_call","call_id":"c1","name":"pick","arguments":"{}"}`
		c2 = `{"type":"function_call","call_id":"c2","name":"pick","arguments":"{}"}`
		r1 = `{"type":"function_call_output","call_id":"c1","output":"one"}`
		r2 = `{"type":"function_call_output","call_id":"c2","output":"two"}`
		rx = `{"type":"function_call_output","call_id":"c1","output":"two"}`

		asked  = "user: go\nassistant: Both. c1=pick({}) c2=pick({})\n"
		given  = "tool: one\ntool: two\n"
		chatOf = `{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"pick","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"function","function":{"name":"pick","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"c2","content":"two"}`
	)
	for name, c := range map[string]struct {
		path string
		send []string // after the calls; %s is the first response
		want string   // what the model reads last
	}{
		"between the calls":         {"", []string{`"previous_response_id":"%s","input":[` + c1 + "," + r1 + "," + c2 + "," + r2 + `]`}, asked + given},
		"in a conversation":         {"", []string{`"conversation":"s","input":[` + u + "," + c1 + "," + r1 + "," + c2 + "," + r2 + `]`}, asked + given},
		"in a chat":                 {"chat", []string{chatOf}, asked + given},
		"one after the other":       {"", []string{`"conversation":"s","input":[` + r1 + `]`, `"conversation":"s","input":[` + r2 + `]`}, asked + given + "assistant: Well.\n"},
		"both of the response":      {"", []string{`"previous_response_id":"%s","input":[` + r1 + `]`, `"previous_response_id":"%s","input":[` + r2 + `]`}, asked + given + "assistant: Well.\n"},
		"all of them again":         {"", []string{`"conversation":"s","input":[` + r1 + `]`, `"conversation":"s","input":[` + r1 + "," + r2 + `]`}, asked + given + "assistant: Well.\n"},
		"with the words before":     {"", []string{`"previous_response_id":"%s","input":[` + u + "," + c1 + "," + c2 + "," + r1 + "," + r2 + `]`}, asked + given},
		"two calls of one ID":       {"whole", []string{`"input":[` + u + "," + c1 + "," + c1 + "," + r1 + "," + rx + `]`}, "user: go\nassistant:  c1=pick({}) call00001=pick({})\ntool: one\ntool: two\n"},
		"two calls, then words":     {"whole", []string{`"input":[` + u + "," + c1 + "," + c1 + "," + r1 + "," + rx + `,{"role":"assistant","content":"x"},{"role":"user","content":"y"}]`}, "user: go\nassistant:  c1=pick({}) call00001=pick({})\ntool: one\ntool: two\nassistant: x\nuser: y\n"},
		"a result that was changed": {"", []string{`"conversation":"s","input":[` + r1 + "," + r2 + `]`, `"conversation":"s","input":[` + rx + `]`}, asked + given + "assistant: Well.\nuser: [A result was sent for the call c1, which is not open: two]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, server := modelled(t, true)
			server.Otherwise(func(q modelserver.Request) modelserver.Response {
				if q.Messages[len(q.Messages)-1].Text() == "go" {
					return modelserver.Stream(modelserver.Text("Both."), modelserver.Call("c1", "pick"), modelserver.Call("c2", "pick"))
				}
				return modelserver.Reply("Well.")
			})
			first := ""
			if c.path != "whole" {
				status, got := r.post("/v1/responses", `{"conversation":"s","tools":`+tools+`,"input":"go"}`)
				expect.Equal(t, fmt.Sprint(got["error"]), status, 200)
				first = got["id"].(string)
			}
			for _, body := range c.send {
				if c.path == "chat" {
					status, got := r.post("/v1/chat/completions", `{"messages":[`+body+`]}`, "X-Turnstile-Session", "s")
					expect.Equal(t, fmt.Sprint(got["error"]), status, 200)
					continue
				}
				if first != "" && body[1] == 'p' {
					body = fmt.Sprintf(body, first)
				}
				status, got := r.post("/v1/responses", "{"+body+"}")
				expect.Equal(t, fmt.Sprint(got["error"]), status, 200)
			}
			messages, _ := heard(server, len(server.Requests()))
			expect.Equal(t, "the model reads", messages, "system: Be kind.\n"+c.want)
		})
	}
}

// Results that a failed turn had brought are sent again, after the response with the calls.
func TestResultsAfterAFailure(t *testing.T) {
	t.Parallel()
	r, server := modelled(t, true, modelserver.Stream(modelserver.Call("c1", "pick")), modelserver.Error(http.StatusBadRequest, "invalid_value", "no"), modelserver.Reply("x"))
	status, first := r.post("/v1/responses", `{"conversation":"s","input":"go","tools":`+tools+`}`)
	expect.Equal(t, "status", status, 200)
	for _, want := range []string{"failed", "completed"} {
		_, got := r.post("/v1/responses", `{"previous_response_id":"`+first["id"].(string)+`","input":[{"type":"function_call_output","call_id":"c1","output":"one"}]}`)
		expect.Equal(t, fmt.Sprint(got["error"]), got["status"], any(want))
	}
	messages, _ := heard(server, 3)
	expect.Equal(t, "the model reads", messages, "system: Be kind.\nuser: go\nassistant:  c1=pick({})\ntool: one\n")
}

// A request may be all that was said: the model goes on from the assistant's words, or begins with the instructions.
// In a session it brings nothing.
func TestNothingOfTheUser(t *testing.T) {
	t.Parallel()
	r, server := modelled(t, true)
	server.Otherwise(func(modelserver.Request) modelserver.Response { return modelserver.Reply("on") })
	const (
		said  = `[{"role":"user","content":"go"},{"role":"assistant","content":"It is"}]`
		told  = `[{"role":"system","content":"Tell a joke."}]`
		read  = "system: Be kind.\nuser: go\nassistant: It is\n"
		begun = "system: Be kind.\n\nTell a joke.\n"
	)
	n := 0
	for _, c := range []struct{ path, body, want string }{
		{"/v1/chat/completions", `{"messages":` + said + `}`, read},
		{"/v1/chat/completions", `{"messages":` + told + `}`, begun},
		{"/v1/responses", `{"input":` + said + `}`, read},
		{"/v1/responses", `{"input":` + told + `}`, begun},
	} {
		status, got := r.post(c.path, c.body)
		expect.Equal(t, fmt.Sprint(got["error"]), status, 200)
		n++
		messages, _ := heard(server, n)
		expect.Equal(t, c.path, messages, c.want)
	}
	status, got := r.post("/v1/responses", `{"input":`+said+`}`)
	expect.Equal(t, "status", status, 200)
	status, _ = r.post("/v1/responses", `{"previous_response_id":"`+got["id"].(string)+`","input":"next"}`)
	expect.Equal(t, "status", status, 200)
	messages, _ := heard(server, n+2)
	expect.Equal(t, "the next turn", messages, read+"\non\nuser: next\n") // neighbours of one role are one message
	for _, in := range []string{`"conversation":"s","input":` + said, `"conversation":"s","input":` + told} {
		status, got := r.post("/v1/responses", "{"+in+"}")
		if problem := fmt.Sprint(got["error"]); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", in, status, problem)
		}
	}
}
