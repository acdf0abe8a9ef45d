package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol/lease"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// end is the event with which one use of a tool ends.
func (r *rig) end() agent.Event {
	r.Helper()
	for _, e := range r.events {
		if e.Type == session.EventToolEnd {
			return e
		}
	}
	r.Fatalf("no tool has ended: %s", r.story())
	return agent.Event{}
}

// use runs a tool that is a shell script.
func use(t *testing.T, config Config, tool Tool, args string) agent.Event {
	t.Helper()
	config.Tools = []Tool{tool}
	r := newRig(t, config, call("c1", tool.Name, args), text("ok"))
	r.must(turn("go"))
	return r.end()
}

func TestWhatToolsWrite(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`cat`:                          `{"a":"$(touch /tmp/no) ü"}`,
		`printf ' {"n": 1}\n '`:        `{"n":1}`,
		`echo 42`:                      `42`,
		`echo null`:                    `null`,
		`echo '{"a":1} {"b":2}'`:       `"{\"a\":1} {\"b\":2}"`,
		`printf 'a <b>\n\nc\n\n'`:      `"a <b>\n\nc"`,
		`true`:                         `""`,
		`printf '\377x'`:               `"` + "\uFFFD" + `x"`,
		`printf '"\377"'`:              `"\"` + "\uFFFD" + `\""`,
		`exec <&-; echo not read`:      `"not read"`,
		`(sleep 1000 &) ; echo behind`: `"behind"`,
	} {
		if e := use(t, Config{}, shell("x", script), `{"a":"$(touch /tmp/no) ü"}`); string(e.Output) != want || e.Error != "" {
			t.Errorf("%s: %s %s, want %s", script, e.Output, e.Error, want)
		}
	}
}

func TestHowToolsFail(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`echo out; printf 'a\nb\nc\nd\n' >&2; exit 3`: "exit status 3: b\nc\nd",
		`exit 75`:                      "exit status 75",
		`kill -KILL $$`:                "killed by signal: killed",
		`kill -KILL $PPID; sleep 1000`: "killed from outside",
	} {
		if e := use(t, Config{}, shell("x", script), `{}`); e.Error != want || e.Output != nil {
			t.Errorf("%s: %s %q, want %q", script, e.Output, e.Error, want)
		}
	}
	if e := use(t, Config{}, Tool{Name: "x", Argv: []string{"no-such-program-anywhere"}}, `{}`); !strings.HasPrefix(e.Error, "could not start the tool: ") || strings.Contains(e.Error, "agent") {
		t.Errorf("%q", e.Error)
	}
	if e := use(t, Config{}, Tool{Name: "x", Argv: []string{"pwd"}, Dir: "/no/such/directory"}, `{}`); !strings.HasPrefix(e.Error, "could not start the tool: ") {
		t.Errorf("%q", e.Error)
	}
}

func TestToolTimeout(t *testing.T) {
	t.Parallel()
	slow := shell("x", `trap "" INT TERM; echo busy >&2; sleep 1000`)
	enough := expect.Lease(time.Second) // for its first word
	for _, c := range []struct {
		config  Config
		timeout time.Duration
	}{{Config{ToolTimeout: enough}, 0}, {Config{}, enough}} {
		slow.Timeout = c.timeout
		if e := use(t, c.config, slow, `{}`); e.Error != fmt.Sprintf("killed, for it took longer than %s: busy", enough) {
			t.Errorf("%+v", e)
		}
	}
}

func TestLongResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ context, want int }{{1_000_000, maxResult}, {1000, 2000}} {
		e := use(t, Config{ContextTokens: c.context}, shell("x", `head -c 1000000 /dev/zero | tr '\0' x`), `{}`)
		got := plain(e.Output)
		if strings.Count(got, "x") != c.want || !strings.Contains(got, "[truncated here: the tool wrote 1000000 bytes, these are the first ") {
			t.Errorf("%d bytes: %s", len(got), got[len(got)-80:])
		}
	}
}

// The model's server and the tools get the turn's traceparent.
func TestTraceParent(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	r := newRig(t, Config{Tools: []Tool{shell("x", `echo "<$TRACEPARENT>"`)}}, modelserver.Stream(modelserver.Call("c1", "x", "{}")), modelserver.Reply("done"))
	at := turn("hello")
	at.TraceParent = trace
	r.must(at)
	requests := r.model.Requests()
	if len(requests) != 2 || requests[0].Header.Get("Traceparent") != trace || !strings.Contains(requests[1].Last(), "<"+trace+">") {
		t.Errorf("%+v", requests)
	}
}

func TestToolEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	x := shell("x", `pwd; env`)
	x.Dir, x.Env = dir, []string{"TOOL_TEST_TWO"}
	got := "\n" + plain(use(t, Config{Env: []string{"TOOL_TEST_ONE"}, Key: key}, x, `{}`).Output) + "\n"
	for _, want := range []string{dir, "TOOL_TEST_ONE=1", "TOOL_TEST_TWO=2", "TURNSTILE_SESSION=s:1", "TURNSTILE_TURN_ID=t1", "TURNSTILE_MESSAGE_ID=m1", "TURNSTILE_FENCE=1"} {
		if !strings.Contains(got, "\n"+want+"\n") {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	for _, no := range []string{key, "OPENAI", "REDIS"} {
		if strings.Contains(got, no) {
			t.Errorf("%s is in %s", no, got)
		}
	}
}

// alive reports whether a process has the word in its command line.
func alive(word string) bool {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte(word)) {
			return true
		}
	}
	return false
}

// An interrupt ends the tool too, with grace; the loss of the session ends it at once.
func TestInterruptedTool(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("needs /proc")
	}
	for name, c := range map[string]struct {
		cause  error
		script string
		grace  time.Duration
		ended  bool // the tool may write at its end
	}{
		"polite":    {errors.New("stopped"), `trap 'touch "$0.end"; exit 0' INT; touch "$0"; while :; do sleep 0.01; done`, time.Minute, true},
		"stubborn":  {errors.New("stopped"), `trap '' INT; touch "$0"; while :; do sleep 0.01; done`, 50 * time.Millisecond, false},
		"no grace":  {errors.New("stopped"), `trap 'touch "$0.end"' INT; touch "$0"; while :; do sleep 0.01; done`, -1, false},
		"lost":      {agent.ErrLeaseLost, `trap 'touch "$0.end"' INT; touch "$0"; while :; do sleep 0.01; done`, time.Minute, false},
		"with many": {errors.New("stopped"), `touch "$0"; (sleep 1000; echo "$0") & wait`, 50 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "interrupted-tool")
			tool := Tool{Name: "x", Argv: []string{"sh", "-c", c.script, mark}}
			r := newRig(t, Config{Tools: []Tool{tool}, Grace: c.grace}, modelserver.Stream(modelserver.Call("c1", "x", "{}"), modelserver.Call("c2", "x", "{}")))
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				for {
					if _, err := os.Stat(mark); err == nil || t.Context().Err() != nil {
						break
					}
					time.Sleep(time.Millisecond) // the file is the event, and files have none
				}
				cancel(c.cause)
			}()
			_, err := r.agent.Run(ctx, emitting(turn("go"), r.emit))
			if !errors.Is(err, c.cause) {
				t.Error(err)
			}
			// The transcript then has a tool that has not finished.
			r.told("tool_start: c1 x {}")
			if _, err := os.Stat(mark + ".end"); (err == nil) != c.ended {
				t.Errorf("the tool said goodbye: %v", err == nil)
			}
			expect.Soon(t, "the end of its processes", func() bool { return !alive(mark) })
		})
	}
}

// A lease that runs out kills the tool, and the turn belongs to another owner.
func TestLeaseRunsOutInATool(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Tools: []Tool{shell("x", "sleep 1000")}}, call("c1", "x", "{}"))
	tn := turn("go")
	tn.Host.Lease = lease.New(context.Background(), time.Now(), 300*time.Millisecond)
	_, err := r.agent.Run(t.Context(), emitting(tn, r.emit))
	if !errors.Is(err, agent.ErrLeaseLost) || !errors.Is(err, agent.ErrRetryable) {
		t.Error(err)
	}
	r.requests(1)
}

func TestLoadTools(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(content string) string {
		path := filepath.Join(dir, "tools.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	got, err := LoadTools(write(`[
		{"name":"a","description":"d","parameters":{"type":"object"},"argv":["./a.sh","./x"],"timeout":"1m30s","dir":"work","env":["A","B_*"],"unknown":"retry"},
		{"name":"b","argv":["ls"],"dir":"/tmp","safe":true}, {"name":"c","argv":["/bin/ls"],"unknown":"skip"}]`))
	want := []Tool{
		{Name: "a", Description: "d", Parameters: []byte(`{"type":"object"}`), Argv: []string{filepath.Join(dir, "a.sh"), "./x"},
			Timeout: 90 * time.Second, Dir: filepath.Join(dir, "work"), Env: []string{"A", "B_*"}, Unknown: "retry"},
		{Name: "b", Argv: []string{"ls"}, Dir: "/tmp", Safe: true}, {Name: "c", Argv: []string{"/bin/ls"}, Unknown: "skip"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := LoadTools(write(`[]`)); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	_, err = LoadTools(write(`[
		{"name":"a b","argv":[]},
		{"name":"x","argv":["y"],"shell":true},
		{"name":"x","argv":["a\u0000"],"parameters":[1],"timeout":"-1s","env":["REDIS_URL","KEY=secret","-HOME"]},
		{"name":"y","argv":["y"],"parameters":{}},
		{"name":"z","argv":["y"],"timeout":5},
		7,
		{"name":"p","argv":["y"],"unknown":"ask\n"},
		{"name":"q","argv":["y"],"safe":true,"unknown":"skip"}]`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`tool 1: the name "a b" is not made of`, "tool 1: its argv has no program", "tool 2: ", `"shell"`,
		`tool 3: tool 2 has the name "x", too`, "tool 3: its argv contains a zero byte", "tool 3: its parameters are no JSON schema object",
		"tool 3: its timeout is negative", "tool 3: environment name", `tool 3: its env has more than a name at "KEY": give the variables' names only`, `at "-HOME"`, `tool 4: its parameters need "type": "object"`, "tool 5: ", "tool 6: ",
		`tool 7: its unknown is "ask\n": write retry or skip`, "tool 8: it is safe, so it runs again, but its unknown is skip: leave out one of the two",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.HasPrefix(line, "tools file "+dir) {
			t.Errorf("%q does not say which file", line)
		}
	}
	for content, want := range map[string]string{"": "not a JSON array", "{}": "not a JSON array", "[] []": "not a JSON array"} {
		if _, err := LoadTools(write(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := LoadTools(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A tool that asks runs only after the permission, and the question has its arguments and approvers.
func TestToolAsks(t *testing.T) {
	t.Parallel()
	for decision, want := range map[session.Decision]string{session.Allow: `"ran"`, session.Always: `"ran"`, session.Deny: "the user did not permit this use of the tool"} {
		tool := shell("deploy", "echo ran")
		tool.Approvers = []string{"ops/*"}
		r := newRig(t, Config{Tools: []Tool{tool}}, call("c1", "deploy", `{"to":"prod"}`), text("ok"))
		asking := emitting(turn("go"), r.emit)
		var asked []agent.Question
		asking.Host.Ask = func(_ context.Context, q agent.Question) (session.Decision, error) {
			asked = append(asked, q)
			return decision, nil
		}
		_, err := r.agent.Run(t.Context(), asking)
		expect.OK(t, err)
		e := r.end()
		expect.Equal(t, string(decision), string(e.Output)+e.Error, want)
		expect.Equal(t, "questions", len(asked), 1)
		q := asked[0]
		expect.Equal(t, "the question", q.CallID+" "+q.Name+" "+string(q.Input)+" "+strings.Join(q.Approvers, ","), `c1 deploy {"to":"prod"} ops/*`)
	}
}

func TestToolWithAWrongApprover(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tools.json")
	expect.OK(t, os.WriteFile(path, []byte(`[{"name":"x","argv":["true"],"approvers":["no body"]}]`), 0o600))
	_, err := LoadTools(path)
	if err == nil || !strings.Contains(err.Error(), `tool 1: invalid approver "no body"`) {
		t.Errorf("error %v", err)
	}
}
