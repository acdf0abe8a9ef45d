package model

import (
	"encoding/json"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// asking is a turn whose message brings a request.
func asking(text string, q session.ModelRequest) *agent.Turn {
	t := turn(text)
	t.Messages[0].Request = &q
	return t
}

func function(name string) session.Function {
	return session.Function{Name: name, Description: "for tests", Parameters: []byte(`{"type":"object","properties":{"a":{}}}`)}
}

// calls are entries of one reply with open calls of the client's functions.
func calls(ids ...string) (entries []session.Entry) {
	for i, id := range ids {
		entries = append(entries, used(session.ToolUse{Name: "pick", CallID: id, Input: []byte(`{}`), Client: true, Parallel: i > 0}))
	}
	return entries
}

func results(pairs ...string) (b session.Brought) {
	for i := 0; i < len(pairs); i += 2 {
		b.Results = append(b.Results, session.CallResult{CallID: pairs[i], Output: pairs[i+1]})
	}
	return b
}

// What the client asks for reaches the model's server, and only in this turn.
func TestRequestOfTheClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{SystemPrompt: "Be kind.", Tools: []Tool{shell("date", "echo today")}, MaxTokens: 9},
		call("c1", "date", `{}`), call("c2", "pick", `{"a":1}`), text("plain"))
	half, yes := 0.5, true
	r.must(asking("go", session.ModelRequest{
		Instructions: "Be brief.", Functions: []session.Function{{Name: "pick", Strict: &yes}}, ToolChoice: []byte(`"required"`), Parallel: &yes,
		Temperature: &half, TopP: &half, MaxTokens: 7, Stop: []string{"END"}, Format: []byte(`{"type":"json_object"}`),
	}))
	r.must(turn("hello"))
	var parts [3]string
	for i, q := range r.model.Requests() {
		_, after, _ := strings.Cut(string(q.Body), `"tools":`)
		parts[i] = after
	}
	date := `{"type":"function","function":{"name":"date","description":"for tests","parameters":{"properties":{},"type":"object"}}}`
	pick := `{"type":"function","function":{"name":"pick","parameters":{"properties":{},"type":"object"},"strict":true}}`
	stream := `"stream":true,"stream_options":{"include_usage":true}}`
	rest := `"parallel_tool_calls":true,"top_p":0.5,"stop":["END"],"response_format":{"type":"json_object"},` + stream
	expect.Equal(t, "the first request", parts[0], "["+date+","+pick+`],"max_tokens":7,"temperature":0.5,"tool_choice":"required",`+rest)
	expect.Equal(t, "the second one", parts[1], "["+date+","+pick+`],"max_tokens":7,"temperature":0.5,`+rest)
	expect.Equal(t, "the next turn's", parts[2], "["+date+`],"max_tokens":9,`+stream)
	r.wasAsked(1, "system: Be kind.\n\nBe brief.\nuser: go")
	r.told(`
tool_start: c1 date {}
tool_end: c1 "today"
tool_start: c2 pick {"a":1}
text: plain`)
}

func TestFunctionWithTheNameOfATool(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Tools: []Tool{shell("date", "true")}})
	r.says(r.run(asking("go", session.ModelRequest{Functions: []session.Function{function("date")}})), false, "the name date", "give it another name")
	r.requests(0)
}

// Results join their calls, wherever they are; what is missing is named, and what fits no call is a text.
func TestResultsJoinTheirCalls(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		history []session.Entry
		turn    *agent.Turn
		want    string
	}{
		"of the last turn": {
			append([]session.Entry{user("go"), assistant("so")}, calls("c1", "c2")...), asking("", session.ModelRequest{Brought: results("c2", `{"n":2}`, "c1", "one")}),
			"user: go\nassistant: so c1=pick({}) c2=pick({})\ntool: one =c1\ntool: {\"n\":2} =c2",
		},
		"with words": {
			append([]session.Entry{user("go")}, calls("c1")...), asking("and", session.ModelRequest{Brought: results("c1", "1")}),
			"user: go\nassistant:  c1=pick({})\ntool: 1 =c1\nuser: and",
		},
		"of an earlier turn": {
			append(append([]session.Entry{user("go")}, calls("c1", "c2")...), session.Entry{Role: session.RoleUser, Brought: &session.Brought{Results: results("c1", "1").Results}}, assistant("ok")), turn("next"),
			"user: go\nassistant:  c1=pick({}) c2=pick({})\ntool: 1 =c1\ntool: Error: no result was sent =c2\nassistant: ok\nuser: next",
		},
		"none": {
			append([]session.Entry{user("go")}, calls("c1")...), turn("never mind"),
			"user: go\nassistant:  c1=pick({})\ntool: Error: no result was sent =c1\nuser: never mind",
		},
		"too late, and of no call": {
			append(append([]session.Entry{user("go")}, calls("c1")...), user("never mind"), assistant("ok")), asking("", session.ModelRequest{Brought: results("c1", "1", "c9", "9")}),
			"user: go\nassistant:  c1=pick({})\ntool: Error: no result was sent =c1\nuser: never mind\nassistant: ok\n" +
				"user: [A result was sent for the call c1, which is not open: 1]\n\n[A result was sent for the call c9, which is not open: 9]",
		},
		"again": {
			append(append([]session.Entry{user("go")}, calls("c1", "c2")...), session.Entry{Role: session.RoleUser, Brought: &session.Brought{Results: results("c1", "1").Results}}, assistant("ok")),
			asking("", session.ModelRequest{Brought: results("c1", "1", "c2", "2")}),
			"user: go\nassistant:  c1=pick({}) c2=pick({})\ntool: 1 =c1\ntool: 2 =c2\nassistant: ok",
		},
		"of calls with one ID": {
			append([]session.Entry{user("go")}, calls("c1", "c1")...), asking("", session.ModelRequest{Brought: results("c1", "1", "c1", "2")}),
			"user: go\nassistant:  c1=pick({}) call00001=pick({})\ntool: 1 =c1\ntool: 2 =call00001",
		},
		"no words, and the model goes on": {
			nil, asking("", session.ModelRequest{Brought: session.Brought{Past: []session.Entry{user("go"), assistant("so")}}}), "user: go\nassistant: so",
		},
		"of what the client has said": {
			nil, asking("", session.ModelRequest{Brought: session.Brought{
				Past: append([]session.Entry{user("go")}, calls("c1")...), Results: results("c1", "1").Results,
			}}),
			"user: go\nassistant:  c1=pick({})\ntool: 1 =c1",
		},
		"of what the client had said": {
			[]session.Entry{{Role: session.RoleUser, Text: "and", Brought: &session.Brought{
				Past: append([]session.Entry{user("go")}, calls("c1")...), Results: results("c1", "1").Results,
			}}, assistant("ok")}, turn("next"),
			"user: go\nassistant:  c1=pick({})\ntool: 1 =c1\nuser: and\nassistant: ok\nuser: next",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{}, text("fine"))
			c.turn.History = c.history
			r.must(c.turn)
			r.wasAsked(1, c.want)
		})
	}
}

// A history that is too long loses its beginning, and never the calls whose results the message has.
func TestCallsOfTheTurnAreNeverLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{ContextTokens: 100}, text("fine"))
	q := asking("", session.ModelRequest{Brought: results("c1", strings.Repeat("long ", 100))})
	q.History = append([]session.Entry{user("go")}, calls("c1")...)
	r.must(q)
	r.wasAsked(1, "user: "+leftOut.text+"\nassistant:  c1=pick({})\ntool: "+strings.Repeat("long ", 100)+" =c1")
}

// What a client sends with its message reaches the model, however long it is. The session's own history gives way.
func TestBroughtPastIsNeverLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{ContextTokens: 100}, text("fine"))
	long := strings.Repeat("long ", 100)
	q := asking("and?", session.ModelRequest{Brought: session.Brought{Past: []session.Entry{user("task"), assistant(long), user("more"), assistant("yes")}}})
	q.History = []session.Entry{user("older"), assistant("reply")}
	r.must(q)
	r.wasAsked(1, "user: task\nassistant: "+long+"\nuser: more\nassistant: yes\nuser: and?")
}

// Calls keep unique IDs, also if a server repeats its own.
func TestCallIDsOfFunctions(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{}, modelserver.Stream(modelserver.Call("c1", "pick"), modelserver.Call("c1", "pick", `{`)))
	q := asking("go", session.ModelRequest{Functions: []session.Function{function("pick")}})
	q.History = append([]session.Entry{user("go")}, calls("c1")...)
	r.must(q)
	r.told("tool_start: call00001 pick {}\ntool_start: call00002 pick \"{\"")
}

// No client can say what a model's server has sent.
func TestClientsBringNothingSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Instructable: true}, text("ok"))
	past := used(session.ToolUse{Name: "ls", CallID: "c1", Output: []byte(`1`)})
	sent := map[string]json.RawMessage{"secret": json.RawMessage(`"x"`)}
	past.Sent = &session.Sent{From: r.agent.origin(), Fields: sent, Call: sent}
	r.must(asking("go", session.ModelRequest{Brought: session.Brought{Past: []session.Entry{user("a"), past}}}))
	if body := string(r.model.Requests()[0].Body); strings.Contains(body, "secret") || !strings.Contains(body, `"c1"`) {
		t.Error(body)
	}
}
