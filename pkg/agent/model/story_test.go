package model

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// A story is a turn, and the model's responses.
type story struct {
	provider string
	turn     *agent.Turn
	tools    func(log string) []Tool
	response func(q modelserver.Request) int // the number of the one that a request asks for
	steps    func(j *journal, n int) []modelserver.Step
	skips    map[string]string // the IDs of the calls that do not run again, by their steps
	config   Config
	forgets  bool // see journal
}

// told is what remains of a story after its runs.
type told struct {
	runs       int
	points     []string // of a run that does not die
	bodies     []string // of the requests
	refused    int      // requests with images
	tools      []string // a line for each start of a tool: its name and the step's key
	questions  int
	usages     int
	transcript string
}

// tell runs a story until no run dies.
func (s story) tell(t *testing.T, die func(n int, point string) bool) (end told) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	j := newJournal(t)
	j.die, j.forgets = die, s.forgets
	s.config.Provider, s.config.ContextTokens, s.config.ToolRounds, s.config.Tools = s.provider, 2000, 2, s.tools(log)
	r := newRig(t, s.config)
	r.model.Otherwise(func(q modelserver.Request) modelserver.Response {
		if pictured(q) && s.config.ImageBytes == 0 {
			return modelserver.Error(400, "invalid_image_url", "Could not fetch the image.")
		}
		return modelserver.Stream(s.steps(j, s.response(q))...)
	})
	var err error
	end.runs, err = j.finish(r, s.turn)
	expect.OK(t, err)
	for _, q := range r.model.Requests() {
		if pictured(q) && s.config.ImageBytes == 0 {
			end.refused++
		} else {
			end.bodies = append(end.bodies, string(q.Body))
		}
	}
	if data, err := os.ReadFile(log); err == nil {
		end.tools = strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	end.points, end.questions, end.usages, end.transcript = j.points, len(j.questions), j.usages, j.transcript()
	return end
}

// pictured reports whether a request has an image.
func pictured(q modelserver.Request) bool {
	return slices.ContainsFunc(q.Messages, func(m modelserver.Message) bool { return len(m.Images()) > 0 })
}

// logged is a tool that writes its name and the step's key to a file.
func logged(log, name, script string) Tool {
	return Tool{Name: name, Argv: []string{"sh", "-c", `echo "$1 $TURNSTILE_STEP_KEY" >>"$0"; ` + script, log, name}}
}

// replies counts the replies that a request repeats.
func replies(q modelserver.Request) (n int) {
	for _, m := range q.Messages {
		if m.Role == roleAssistant {
			n++
		}
	}
	return n
}

// signature is Gemini's, which a call goes back with. The Messages API has none there, and its clients skip an event
// without a name.
const signature = `"extra_content":{"google":{"thought_signature":"SIG"}}`

// errand has three responses, four calls of tools, a question and a steer, from another person than the messages.
func errand() story {
	s := story{turn: turn("go", "now"), skips: map[string]string{"call:1.1": "call00001", "call:2.2": "c4"}}
	s.turn.Note = "[System note: y]"
	s.turn.History = []session.Entry{
		user(strings.Repeat("too long ", 880)), user("before"),
		used(session.ToolUse{Name: "look", CallID: "c1", Output: []byte(`1`)}), assistant("so"),
	}
	s.tools = func(log string) []Tool {
		charge := logged(log, "charge", `echo '{"paid":  true, "to": "<a&b>"}'`)
		charge.Ask = true
		note := logged(log, "note", `printf '{ "n": 2 }\n\n'`)
		note.Unknown = "retry"
		look := logged(log, "look", `printf 'two\nlines\n'`)
		look.Safe = true
		return []Tool{charge, note, look, logged(log, "mail", `echo no such address >&2; exit 3`)}
	}
	s.response = func(q modelserver.Request) int { return replies(q) - 1 } // without those of the history
	s.steps = func(j *journal, n int) []modelserver.Step {
		in := j.reach(fmt.Sprintf("in response:%d", n))
		switch n {
		case 1:
			return []modelserver.Step{
				modelserver.Thought("h", "m"), modelserver.Text("let me "), in, modelserver.Text("see"),
				modelserver.Call("c1", "charge", `{"a": `, `"<1>"}`), modelserver.Raw(callPieces(`{"index":0,` + signature + `}`)),
				modelserver.Call("c1", "note"), modelserver.Use(10, 2),
			}
		case 2:
			return []modelserver.Step{
				modelserver.Thought("more"), modelserver.Call("", "look", `{}`), j.steer(n, "s1"), in,
				modelserver.Call("c4", "mail", `{"to":"x"}`), modelserver.Use(20, 3),
			}
		}
		return []modelserver.Step{modelserver.Text("all "), in, modelserver.Text("done"), modelserver.Use(30, 4)}
	}
	return s
}

// mistakes has calls that run no tool, a denial, an image that the server refuses, and a reply that is too long.
func mistakes() story {
	s := story{turn: turn("go")}
	s.turn.History = []session.Entry{{Role: session.RoleUser, Text: "see", Attachments: []session.Attachment{{Name: "a", Mime: "image/png", URL: "https://x.test/a"}}}}
	s.tools = func(log string) []Tool {
		denied := logged(log, "denied", "true")
		denied.Ask = true
		return []Tool{denied}
	}
	s.response = func(q modelserver.Request) int { return replies(q) + 1 }
	s.steps = func(j *journal, n int) []modelserver.Step {
		in := j.reach(fmt.Sprintf("in response:%d", n))
		if n == 1 {
			return []modelserver.Step{
				modelserver.Call("c", "no such", `{}`), in, modelserver.Call("c", "denied", `{"a": 1}`), modelserver.Call("c", "denied", `{"a":`),
				modelserver.Call("c", "denied", `[1]`), modelserver.Use(1, 1),
			}
		}
		return []modelserver.Step{modelserver.Text("sor"), in, modelserver.Text("ry"), modelserver.Finish("length"), modelserver.Use(1, 1)}
	}
	return s
}

// silence has responses without text or calls, each of which a steer follows.
func silence() story {
	s := story{turn: turn("go")}
	s.tools = func(string) []Tool { return nil }
	s.response = func(q modelserver.Request) int { return 1 + strings.Count(string(q.Body), "and s") }
	s.steps = func(j *journal, n int) []modelserver.Step {
		in, thought, use := j.reach(fmt.Sprintf("in response:%d", n)), modelserver.Thought("hm"), modelserver.Use(1, 1)
		if n < 3 {
			return []modelserver.Step{thought, j.steer(n, fmt.Sprintf("s%d", n)), in, use}
		}
		return []modelserver.Step{thought, in, modelserver.Text("there"), use}
	}
	return s
}

// handed ends with a call of the client's function, after the tool of the same response. The steer waits for
// another turn.
func handed() story {
	s := story{turn: turn("go")}
	s.turn.Messages[0].Request = &session.ModelRequest{
		Instructions: "Be brief.", Functions: []session.Function{{Name: "pick"}}, ToolChoice: []byte(`"required"`),
		Brought: session.Brought{Past: []session.Entry{user("before"), assistant("so")}},
	}
	s.tools = func(log string) []Tool {
		note := logged(log, "note", "echo 1")
		note.Unknown = "retry"
		return []Tool{note}
	}
	s.response = replies
	s.steps = func(j *journal, n int) []modelserver.Step {
		in, use := j.reach(fmt.Sprintf("in response:%d", n)), modelserver.Use(1, 1)
		if n == 1 {
			return []modelserver.Step{modelserver.Call("c1", "note", `{}`), in, use}
		}
		return []modelserver.Step{
			modelserver.Text("pick "), j.steer(n, "s1"), in, modelserver.Text("one"),
			modelserver.Call("c2", "pick", `{"of": [1, 2]}`), modelserver.Call("c3", "note", `{"n":2}`), modelserver.Call("c4", "pick"), use,
		}
	}
	return s
}

// long has more history than fits: its beginning is summed up, and one of its images is only named.
func long() story {
	s := story{turn: turn("go"), config: Config{Compact: true, ImageBytes: 30}}
	s.turn.Note = "[System note: y]"
	for i := range 20 {
		e := session.Entry{Role: session.RoleUser, Text: strings.Repeat("long ", 100)}
		if i > 17 {
			e.Attachments = []session.Attachment{{Name: "a", Mime: "image/png", URL: "https://x.test/a"}}
		}
		s.turn.History = append(s.turn.History, e, assistant("so"))
	}
	s.tools = func(log string) []Tool { return []Tool{logged(log, "note", "head -c 3000 /dev/zero | tr '\\0' x")} }
	s.response = func(q modelserver.Request) int {
		if strings.Contains(q.Last(), "[Sum up") {
			return 0
		}
		return 1 + len(q.Messages[len(q.Messages)-1].ToolCallID)/len("c1")
	}
	s.steps = func(j *journal, n int) []modelserver.Step {
		in, use := j.reach(fmt.Sprintf("in response:%d", n)), modelserver.Use(1, 1)
		switch n {
		case 0:
			return []modelserver.Step{modelserver.Text("all "), in, modelserver.Text("that"), use}
		case 1:
			return []modelserver.Step{modelserver.Call("c1", "note"), in, use}
		}
		return []modelserver.Step{modelserver.Text("do"), in, modelserver.Text("ne"), use}
	}
	s.skips = map[string]string{"call:1.1": "c1"}
	return s
}

// forgetful is long with a worker that dies before the agent's state is stored.
func forgetful() story {
	s := long()
	s.forgets = true
	return s
}

var stories = map[string]func() story{"errand": errand, "mistakes": mistakes, "silence": silence, "handed": handed, "long": long, "forgetful": forgetful}

// everyStory is each story with each provider.
func everyStory() map[string]story {
	all := map[string]story{}
	for name, story := range stories {
		for _, provider := range []string{providerOpenAI, providerAnthropic} {
			s := story()
			s.provider = provider
			all[name+" "+provider] = s
		}
	}
	return all
}

// without is what a text, a request's or a transcript's, is if these calls do not run again.
func without(text string, calls []string) string {
	for _, id := range calls {
		text = regexp.MustCompile(`"content":"(?:[^"\\]|\\.)*","tool_call_id":"`+id+`"`).ReplaceAllString(text, `"content":"Error: `+cutOff+`","tool_call_id":"`+id+`"`)
		text = regexp.MustCompile(`("tool_use_id":"`+id+`",(?:"cache_control":\{[^}]*\},)?"content":\[\{"text":)"(?:[^"\\]|\\.)*"`).ReplaceAllString(text, `${1}"Error: `+cutOff+`"`)
		text = regexp.MustCompile(`(?m)^(tool: `+id+` \S+ \S+) .*$`).ReplaceAllString(text, "${1} "+cutOff)
	}
	return text
}

// went checks the end of a story with deaths at some points.
func (s story) went(t *testing.T, whole, got told, deaths ...string) {
	t.Helper()
	want := whole
	var skipped []string
	again := 0 // requests
	for _, point := range deaths {
		at, step, _ := strings.Cut(point, " of ")
		call := slices.IndexFunc(want.tools, func(line string) bool { return strings.HasSuffix(line, " "+step) })
		id, skips := s.skips[step]
		switch {
		case (strings.HasPrefix(step, "response:") || step == summaryStep) && at == "before the end":
			again++
			want.usages++
			if step == "response:1" {
				want.refused += whole.refused
			}
		case strings.HasPrefix(point, "in response:"):
			again++
			if point == "in response:1" {
				want.refused += whole.refused
			}
		case at == "after the start" && skips:
			skipped = append(skipped, id)
			want.tools = slices.Delete(slices.Clone(want.tools), call, call+1)
		case at == "before the end" && skips:
			skipped = append(skipped, id)
		case at == "before the end" && call >= 0:
			want.tools = slices.Insert(slices.Clone(want.tools), call, want.tools[call])
		case at == "before the end" && step == "call:1.2": // a denial
			want.questions++
		case strings.HasPrefix(point, "answered") || point == "before the start of call:1.1" && whole.questions > 0:
			want.questions++
		}
	}
	if len(got.bodies) != len(whole.bodies)+again {
		t.Errorf("%d requests, want %d and %d again", len(got.bodies), len(whole.bodies), again)
	}
	var bodies []string
	for _, b := range whole.bodies {
		bodies = append(bodies, without(b, skipped))
	}
	expect.List(t, "requests", slices.Compact(got.bodies), bodies...)
	expect.List(t, "tools", got.tools, want.tools...)
	expect.Equal(t, "transcript", got.transcript, without(whole.transcript, skipped))
	expect.Equal(t, "questions", got.questions, want.questions)
	expect.Equal(t, "usages", got.usages, want.usages)
	expect.Equal(t, "refused requests", got.refused, want.refused)
	expect.Equal(t, "runs", got.runs, len(deaths)+1)
}
