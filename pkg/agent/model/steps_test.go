package model

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

func TestStories(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	got := errand().tell(t, nil)
	expect.Equal(t, "transcript", got.transcript, `assistant: let me see
tool: call00001 charge {"a":"<1>"} {"paid":true,"to":"<a&b>"}
tool: call00002 note {} {"n":2}
tool: call00003 look {} "two\nlines"
tool: c4 mail {"to":"x"} exit status 3: no such address
user: and s1
assistant: all done
`)
	expect.List(t, "tools", got.tools, "charge key of call:1.1", "note key of call:1.2", "look key of call:2.1", "mail key of call:2.2")
	expect.Equal(t, "requests and questions", fmt.Sprint(len(got.bodies), got.questions), "3 1")
	if strings.Contains(got.bodies[0], "too long") || !strings.Contains(got.bodies[0], "[System note: y]") {
		t.Error(got.bodies[0])
	}
	for i, body := range got.bodies {
		expect.Equal(t, "signatures", strings.Count(body, signature), min(i, 1))
	}
	expect.Equal(t, "replies", silence().tell(t, nil).transcript, "user: and s1\nuser: and s2\nassistant: there\n")
	got = handed().tell(t, nil)
	expect.Equal(t, "calls of the client's function", got.transcript, `tool: c1 note {} 1
assistant: pick one
tool: c3 note {"n":2} 1
tool: c2 pick {"of":[1,2]} 
tool: c4 pick {} 
`)
	got = long().tell(t, nil)
	expect.Equal(t, "requests", len(got.bodies), 3)
	for i, body := range got.bodies {
		if begins := strings.Contains(body, `"content":"[The beginning of this conversation is left out here. Your summary of it:]\n\nall that"`); begins != (i > 0) ||
			strings.Count(body, `"image_url":`) != min(i, 1) || strings.Count(body, "[System note: y]") != min(i, 1) {
			t.Errorf("%d: %s", i, body)
		}
	}
	got = mistakes().tell(t, nil)
	expect.Equal(t, "requests, refused ones, and questions", fmt.Sprint(len(got.bodies), got.refused, got.questions), "2 1 1")
	expect.Equal(t, "mistakes", got.transcript, `tool: c no_such {} there is no tool named "no such"
tool: call00001 denied {"a":1} the user did not permit this use of the tool
tool: call00002 denied "{\"a\":" the arguments are not a JSON object (unexpected end of JSON input): {"a":
tool: call00003 denied [1] the arguments are not a JSON object (json: cannot unmarshal array into Go value of type map[string]json.RawMessage): [1]
assistant: sorry
`)
}

// Wherever a worker dies, the next one goes on there: no response is asked for twice, no tool runs twice, and the
// model is asked the same, byte for byte, and the user sees the same.
func TestWorkerDiesAtEachPoint(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	for name, s := range everyStory() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := s.tell(t, nil)
			for i, point := range whole.points {
				t.Run(point, func(t *testing.T) {
					t.Parallel()
					died := false
					s.went(t, whole, s.tell(t, func(n int, _ string) bool {
						dies := !died && n == i+1
						died = died || dies
						return dies
					}), point)
				})
			}
		})
	}
}

// A turn ends even if each run stores one thing only, or each step's end is lost once.
func TestWorkersDieAllTheTime(t *testing.T) {
	t.Parallel()
	expect.NotQuick(t)
	for name, s := range everyStory() {
		for _, when := range []string{"after", "before the end"} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				whole := s.tell(t, nil)
				var deaths []string
				got := s.tell(t, func(_ int, point string) bool {
					dies := strings.HasPrefix(point, when) && !slices.Contains(deaths, point)
					if dies {
						deaths = append(deaths, point)
					}
					return dies
				})
				s.went(t, whole, got, deaths...)
			})
		}
	}
}

// A tool that dies with its worker runs again, with the same key, only if its settings say so. Else the model
// and the user learn it once.
func TestToolDiesWithItsWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Tool)
		result string
		runs   int
	}{
		"skip":  {func(*Tool) {}, "Error: " + cutOff, 1},
		"retry": {func(tool *Tool) { tool.Unknown = "retry" }, "paid", 2},
		"safe":  {func(tool *Tool) { tool.Safe = true }, "paid", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			tool := logged(log, "pay", `[ -e "$0.again" ] && echo paid || sleep 1000`)
			c.change(&tool)
			j := newJournal(t)
			r := newRig(t, Config{Tools: []Tool{tool}, Grace: -1}, call("c1", "pay", `{"a":1}`), text("ok"))
			lines := func() int {
				data, _ := os.ReadFile(log)
				return strings.Count(string(data), "pay key of call:1.1\n")
			}
			go func() {
				for lines() == 0 && t.Context().Err() == nil {
					time.Sleep(time.Millisecond) // the file is the event, and files have none
				}
				j.mu.Lock()
				defer j.mu.Unlock()
				j.dead = true
				j.kill(errDied)
			}()
			if died, _ := j.run(r, turn("go")); !died {
				t.Fatal("the first run did not die")
			}
			expect.OK(t, os.WriteFile(log+".again", nil, 0o600))
			died, err := j.run(r, turn("go"))
			expect.OK(t, err)
			expect.Equal(t, "deaths and starts", fmt.Sprint(died, lines()), fmt.Sprint(false, c.runs))
			r.requests(2)
			r.wasAsked(2, "user: go\nassistant:  c1=pay({\"a\":1})\ntool: "+c.result+" =c1")
			if strings.Count(j.transcript(), "tool: c1") != 1 {
				t.Error(j.transcript())
			}
		})
	}
}

// The replies with calls of all runs count, and a reply is missing whatever an earlier run has said.
func TestLimitsCountAllRuns(t *testing.T) {
	t.Parallel()
	tools := []Tool{shell("cat", "cat")}
	after := func(step string) func(int, string) bool {
		died := false
		return func(_ int, point string) bool {
			dies := !died && point == "after the end of "+step
			died = died || dies
			return dies
		}
	}
	r, j := newRig(t, Config{ToolRounds: 2, Tools: tools}), newJournal(t)
	r.model.Otherwise(func(modelserver.Request) modelserver.Response { return call("", "cat", `{}`) })
	j.die = after("call:1.1")
	runs, err := j.finish(r, turn("go"))
	r.says(err, false, "exceeded 2 tool rounds")
	r.requests(3)
	expect.Equal(t, "runs", runs, 2)

	r, j = newRig(t, Config{Tools: tools}, call("c1", "cat", `{}`), modelserver.Stream(), modelserver.Stream()), newJournal(t)
	j.die = after("call:1.1")
	runs, err = j.finish(r, turn("go"))
	r.says(err, false, "ended without a reply")
	r.requests(3)
	expect.Equal(t, "runs", runs, 2)
}

// A steer that a dead run has not accepted may be gone. Then the turn is over, and the model is not asked.
func TestSteerThatIsGone(t *testing.T) {
	t.Parallel()
	r, j := newRig(t, Config{}), newJournal(t)
	r.model.Script(modelserver.Stream(modelserver.Text("hi"), j.steer(1, "s1")))
	j.die = func(_ int, point string) bool { return point == "before s1" }
	_, err := j.run(r, turn("go"))
	expect.OK(t, err)
	j.waiting = nil
	died, err := j.run(r, turn("go"))
	expect.OK(t, err)
	expect.Equal(t, "the second run died", died, false)
	r.requests(1)
	expect.Equal(t, "transcript", j.transcript(), "assistant: hi\n")
}

// The last response needs no journal: the turn's end stores it.
func TestPlainTurnNeedsNoJournal(t *testing.T) {
	t.Parallel()
	r, j := newRig(t, Config{}, text("hi")), newJournal(t)
	_, err := j.finish(r, turn("hello"))
	expect.OK(t, err)
	expect.List(t, "points", j.points, "start response:1")
	expect.Equal(t, "transcript", j.transcript(), "assistant: hi\n")
}

// With a journal a turn whose model's server fails goes on after its last step, whatever it has said and done.
func TestFailuresAfterStepsAreRetried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		failure modelserver.Response
		says    string
	}{
		"busy":    {modelserver.RateLimited("1"), "too many requests"},
		"down":    {modelserver.Error(503, "", "down"), "down"},
		"timeout": {modelserver.Error(408, "", "slow"), "slow"},
		"cut":     {modelserver.CutBefore(), "does not respond"},
		"broken":  {modelserver.Stream(modelserver.Text("half a"), modelserver.Cut()), "broke off in the middle"},
		"ended":   {modelserver.Plain(200, "text/event-stream", `data: {"choices":[{"delta":{"content":"half a"}}]}`+"\n\n"), "ended in the middle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Config{MaxRetries: -1, Tools: []Tool{shell("cat", "cat")}},
				modelserver.Stream(modelserver.Text("see"), modelserver.Call("c1", "cat")), c.failure, text("ok"))
			j := newJournal(t)
			_, err := j.run(r, turn("go"))
			r.says(err, true, c.says)
			_, err = j.run(r, turn("go"))
			expect.OK(t, err)
			r.requests(3)
			expect.Equal(t, "transcript", j.transcript(), "assistant: see\ntool: c1 cat {} {}\nassistant: ok\n")
			requests := r.model.Requests()
			expect.Equal(t, "the request", string(requests[2].Body), string(requests[1].Body))
		})
	}
	for _, final := range []modelserver.Response{modelserver.ContextTooLong(), modelserver.Stream(modelserver.Text("a"), modelserver.Finish("content_filter"))} {
		r := newRig(t, Config{Tools: []Tool{shell("cat", "cat")}}, call("c1", "cat", "{}"), final)
		_, err := newJournal(t).run(r, turn("go"))
		r.says(err, false)
	}
}

// What the journal does not take ends the turn.
func TestJournalIsFull(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"response:1", "call:1.1"} {
		r := newRig(t, Config{Tools: []Tool{shell("cat", "cat")}}, call("c1", "cat", "{}"), text("ok"))
		j := newJournal(t)
		j.full = step
		_, err := j.run(r, turn("go"))
		r.says(err, false, "journal is full")
		if !errors.Is(err, agent.ErrJournalFull) {
			t.Error(err)
		}
		r.requests(1)
	}
}

// Steps of an earlier run that cannot be used end the turn.
func TestStrangeSteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key   string
		input string
		end   agent.StepEnd
		says  string
	}{
		{"response:1", "", agent.StepEnd{Output: []byte(`[]`)}, "step response:1 of an earlier run: wrong use of a step: its response cannot be read"},
		{"response:1", "", agent.StepEnd{Error: "too large"}, "step response:1 of an earlier run: too large"},
		{"call:1.1", `{"a":2}`, agent.StepEnd{Output: []byte(`1`)}, "another input"},
	} {
		r := newRig(t, Config{}, call("c1", "cat", `{"a":1}`))
		j := newJournal(t)
		j.steps[c.key] = &kept{input: c.input, entry: -1, ended: true, end: c.end}
		_, err := j.run(r, turn("go"))
		r.says(err, false, c.says)
	}
}
