package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"turnstile"

	"turnstile/internal/process/confine"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A tool of the real Claude Code waits for its user without a process, over a deploy and a kill -9. The turn goes
// on at that very call: the model is asked for it once, and it runs once, or not at all.
func TestRealClaudeAsks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options  []string
		apart    bool // the program is confined
		decision session.Decision
	}{
		"allow":               {decision: session.Allow},
		"deny":                {decision: session.Deny},
		"deny what it allows": {decision: session.Deny, options: []string{"--allowedTools", "Bash"}},
		"allow, confined":     {decision: session.Allow, apart: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, isolation := reals[0], agent.Isolation{}
			r.options = c.options
			if c.apart {
				if err := confine.Check(); err != nil {
					t.Skipf("NOT TESTED: %v", err)
				}
				isolation.Level = agent.IsolationConfined
			}
			g := r.startWith(t, isolation)
			chat := actors.NewClient(redistest.New(t)).Session(turn("").Session)
			ctx, cancel := context.WithTimeout(t.Context(), 2*expect.Patience)
			defer cancel()
			ask := []string{"TURNSTILE_ASK_TOOLS=Bash", "TURNSTILE_ASK_TIMEOUT=1d"}
			first := g.worker(t, append(ask, "TURNSTILE_PARK_AFTER=1h", "TURNSTILE_DRAIN_TIMEOUT=1m")...)
			_, err := chat.Send(ctx, turnstile.Message{ID: "m1", Text: "please be denied"})
			expect.OK(t, err)
			var question *session.Question
			expect.Soon(t, "the question", func() bool {
				info, err := chat.Info(ctx)
				expect.OK(t, err)
				question = info.Question
				return question != nil
			})
			expect.Equal(t, "what is asked", question.Name, "Bash")
			first.Signal(syscall.SIGTERM)
			expect.Equal(t, "exit code of the deploy's worker", first.ExitCode(), 0)
			info, err := chat.Info(ctx)
			expect.OK(t, err)
			expect.Equal(t, "phase", info.Phase, session.PhaseParked)
			g.worker(t, append(ask, "TURNSTILE_PARK_AFTER=1ms")...).Kill()
			g.worker(t, append(ask, "TURNSTILE_PARK_AFTER=1ms")...)
			before := len(g.seen())
			_, err = chat.Decide(ctx, question.ID(), c.decision)
			expect.OK(t, err)
			o, err := chat.Wait(ctx, "m1")
			expect.OK(t, err)
			expect.Equal(t, "the reply", fmt.Sprint(o.Status, " ", o.Reply), "done The tool has spoken.")
			expect.Equal(t, "the model's further requests", len(g.seen())-before, 1)
			written, _ := filepath.Glob(g.workspace + "/*/written-by-the-tool")
			expect.Equal(t, "effects", len(written) == 1, c.decision == session.Allow)
			var said []string
			entries, err := actors.Transcript(ctx, chat, o.TranscriptID)
			expect.OK(t, err)
			for _, e := range entries {
				if said = append(said, e.Text); e.Tool != nil {
					said[len(said)-1] = fmt.Sprint(e.Tool.Name, " ", e.Tool.Decision, " ", e.Tool.Error)
				}
			}
			tool := "Bash allow "
			if c.decision == session.Deny {
				tool = "Bash deny The user did not permit this use of the tool."
			}
			expect.List(t, "transcript", said, "please be denied", "I write.", tool, "The tool has spoken.")
		})
	}
}

// The user stops a turn that waits for the permission. The call is given up, and the next message gets its reply.
func TestRealClaudeIsStoppedWhileItAsks(t *testing.T) {
	t.Parallel()
	r := reals[0]
	r.options = nil
	g := r.start(t)
	chat := actors.NewClient(redistest.New(t)).Session(turn("").Session)
	ctx, cancel := context.WithTimeout(t.Context(), 2*expect.Patience)
	defer cancel()
	g.worker(t, "TURNSTILE_ASK_TOOLS=Bash", "TURNSTILE_PARK_AFTER=1ms")
	_, err := chat.Send(ctx, turnstile.Message{ID: "m1", Text: "please be denied"})
	expect.OK(t, err)
	expect.Soon(t, "the park", func() bool {
		info, err := chat.Info(ctx)
		return err == nil && info.Phase == session.PhaseParked
	})
	_, err = chat.Stop(ctx)
	expect.OK(t, err)
	o, err := chat.Wait(ctx, "m1")
	expect.OK(t, err)
	expect.Equal(t, "how it ended", o.Status, session.StatusStopped)
	_, err = chat.Send(ctx, turnstile.Message{ID: "m2", Text: "and now?"})
	expect.OK(t, err)
	o, err = chat.Wait(ctx, "m2")
	expect.OK(t, err)
	expect.Equal(t, "how the next one ended", o.Status, session.StatusDone)
	calls := g.seen()
	expect.List(t, "what the model reads", calls[len(calls)-1].texts, "please be denied", "and now?")
	written, _ := filepath.Glob(g.workspace + "/*/written-by-the-tool")
	expect.Equal(t, "effects", len(written), 0)
}

// A worker dies while a tool runs that the user has allowed. It does not run again.
func TestRealClaudeDiesInAToolThatWasAllowed(t *testing.T) {
	t.Parallel()
	r := reals[0]
	r.options = nil
	g := r.start(t)
	chat := actors.NewClient(redistest.New(t)).Session(turn("").Session)
	ctx, cancel := context.WithTimeout(t.Context(), 2*expect.Patience)
	defer cancel()
	first := g.worker(t, "TURNSTILE_ASK_TOOLS=Bash")
	_, err := chat.Send(ctx, turnstile.Message{ID: "m1", Text: "please use the slow tool"})
	expect.OK(t, err)
	expect.Soon(t, "the question", func() bool {
		info, err := chat.Info(ctx)
		return err == nil && info.Question != nil
	})
	_, err = chat.Decide(ctx, "1", session.Allow)
	expect.OK(t, err)
	effects := func() (n int) {
		files, _ := filepath.Glob(g.workspace + "/*/effects")
		return len(files)
	}
	expect.Soon(t, "the tool", func() bool { return effects() == 1 })
	first.Signal(syscall.SIGKILL)
	g.worker(t, "TURNSTILE_ASK_TOOLS=Bash")
	o, err := chat.Wait(ctx, "m1")
	expect.OK(t, err)
	expect.Equal(t, "how it ended", o.Status, session.StatusDone)
	calls := g.seen()
	if body := calls[len(calls)-1].body; !strings.Contains(body, "may have") {
		t.Errorf("the model does not learn that the tool may have run: %s", body)
	}
	t.Logf("the reply: %q", o.Reply)
}

// The hook permits or refuses the one call that was decided, defers all others, and refuses those of helpers, which
// could not be resumed. What stands in a call's input decides nothing.
func TestHookOfClaude(t *testing.T) {
	t.Parallel()
	options := claudeAsks([]string{"Bash", "mcp__*"}, answer{"toolu_1", "allow", "The user has permitted it."})
	var settings struct {
		Env   map[string]string
		Hooks map[string][]struct {
			Matcher string
			Hooks   []struct{ Type, Command string }
		}
	}
	expect.OK(t, json.Unmarshal([]byte(options[1]), &settings))
	hook := settings.Hooks["PreToolUse"][0]
	expect.Equal(t, "matcher", hook.Matcher, "^(Bash|mcp__.*)$")
	for input, want := range map[string]string{
		`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"x"},"tool_use_id":"toolu_1"}`:                                  "allow",
		`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"x"},"tool_use_id":"toolu_11"}`:                                 "defer",
		`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"x","tool_use_id":"toolu_1"},"tool_use_id":"toolu_2"}`:          "defer",
		`{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":",\"tool_use_id\":\"toolu_1\"}"},"tool_use_id":"toolu_2"}`:      "defer",
		`{"session_id":"s","agent_id":"a1","agent_type":"x","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"x"},"tool_use_id":"toolu_1"}`: "deny",
	} {
		cmd := osexec.CommandContext(t.Context(), "sh", "-c", hook.Hooks[0].Command)
		cmd.Stdin, cmd.Env = strings.NewReader(input), os.Environ()
		for name, value := range settings.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		out, err := cmd.Output()
		expect.OK(t, err)
		var said struct {
			Output struct {
				Event    string `json:"hookEventName"`
				Decision string `json:"permissionDecision"`
			} `json:"hookSpecificOutput"`
		}
		expect.OK(t, json.Unmarshal(out, &said))
		expect.Equal(t, input, said.Output.Event+" "+said.Output.Decision, "PreToolUse "+want)
	}
}

// deferring is the output of Claude Code that ends for its last call, with further ends of tools.
func deferring(ends []string, calls ...string) string {
	out := `{"type":"system","subtype":"init","session_id":"s-1","model":"m"}` + "\n"
	for _, id := range calls {
		out += `{"type":"assistant","message":{"id":"msg","content":[{"type":"tool_use","id":"` + id + `","name":"Bash","input":{"command":"x"}}]}}` + "\n"
	}
	for _, id := range ends {
		out += `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"ok"}]}}` + "\n"
	}
	return out
}

func ending(id string) string {
	return `{"type":"result","subtype":"success","result":"","stop_reason":"tool_deferred","deferred_tool_use":{"id":"` + id + `","name":"Bash","input":{"command":"x"}}}` + "\n"
}

// Of several calls in one response Claude Code resumes one. The others that have not run end with an error. Where
// it would hide the call's result from its model, nobody is asked: the model calls again.
func TestSeveralCallsOfClaude(t *testing.T) {
	t.Parallel()
	done := play{Out: deferring([]string{"t1"}) + `{"type":"result","subtype":"success","result":"ok","stop_reason":"end_turn"}` + "\n"}
	for name, c := range map[string]struct {
		first       play
		asked, ends string
		reason      string
	}{
		"alone":                      {play{Out: deferring(nil, "t1") + ending("t1")}, "t1", "t1", "The user has permitted it."},
		"after one that was dropped": {play{Out: deferring(nil, "t0", "t1") + ending("t1")}, "t1", "t0 it was not done: the agent asked for another tool at the same time,t1", "The user has permitted it."},
		"after one that has ended":   {play{Out: deferring([]string{"t0"}, "t0", "t1") + ending("t1")}, "t1", "t0,t1", "The user has permitted it."},
		"before one that has ended":  {play{Out: deferring([]string{"t2"}, "t1", "t2") + ending("t1")}, "", "t2,t1", "Call this tool again, alone."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command, listen := fakeProgram(t, c.first, done)
			tn, asked := turn("do it"), ""
			tn.Host.Ask = func(_ context.Context, q agent.Question) (session.Decision, error) {
				asked += q.Key
				return session.Allow, nil
			}
			got := playTurn(t, newAgent(t, Claude, Config{Command: command, Ask: []string{"Bash"}}), tn)
			expect.OK(t, got.err)
			expect.Equal(t, "asked", asked, c.asked)
			var ends []string
			for _, e := range got.events {
				if e.Type == session.EventToolEnd {
					ends = append(ends, strings.TrimSpace(e.CallID+" "+e.Error))
				}
			}
			expect.Equal(t, "ends", strings.Join(ends, ","), c.ends)
			starts := listen()
			expect.Equal(t, "starts", len(starts), 2)
			args := strings.Join(starts[1].Args, " ")
			if starts[1].Stdin != "" || !strings.Contains(args, "--resume=s-1") || !strings.Contains(args, c.reason) || !has(starts[1].Env, claudeAskEnv) {
				t.Errorf("%q hears %q", args, starts[1].Stdin)
			}
		})
	}
}

// A program that defers a call again although it was decided fails its turn.
func TestClaudeThatDoesNotHearDecisions(t *testing.T) {
	t.Parallel()
	command, listen := fakeProgram(t, play{Out: deferring(nil, "t1") + ending("t1")})
	got := playTurn(t, newAgent(t, Claude, Config{Command: command, Ask: []string{"Bash"}}), turn("do it"))
	if !errors.Is(got.err, errDeferredAgain) || len(listen()) != 2 {
		t.Errorf("%v", got.err)
	}
}

func TestWhoCanAsk(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"only claude can":         {},
		"has --settings":          {Command: []string{"claude", "--settings={}"}},
		"is no name of a tool":    {Ask: []string{"Bash(git *)"}},
		`"Bash'" is no name of a`: {Ask: []string{"Bash'"}},
	} {
		kind := Claude
		if len(c.Command)+len(c.Ask) == 0 {
			kind = Codex
		}
		if c.Ask == nil {
			c.Ask = []string{"Bash"}
		}
		if _, err := New(kind, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
