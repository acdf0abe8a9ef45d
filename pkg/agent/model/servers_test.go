package model

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/mcpserver"
	"turnstile/test/modelserver"
)

// servers is a file with the test's server under the name t, and another that dies.
func servers(t testing.TB, ask string, options ...string) string {
	t.Helper()
	words := mcpserver.Words(t, options...)
	args, err := json.Marshal(words[1:])
	expect.OK(t, err)
	text := fmt.Sprintf(`{"mcpServers": {"t": {"command": %q, "args": %s}}, "ask": [%s]}`, words[0], args, ask)
	path := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// The model is offered the servers' tools beside its own, in the same order in each request, and gets their results.
func TestToolsOfServers(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{Tools: []Tool{shell("own", "echo mine")}, MCPFile: servers(t, "")},
		call("c1", "mcp__t__echo", `{"text":"[1, 2]"}`), call("c2", "mcp__t__fail", `{"text":"no"}`), call("c3", "mcp__t__echo", `{"text":5}`), call("c4", "own", `{}`), text("ok"))
	r.must(turn("go"))
	r.wasAsked(5, `
user: go
assistant:  c1=mcp__t__echo({"text":"[1, 2]"})
tool: [1,2] =c1
assistant:  c2=mcp__t__fail({"text":"no"})
tool: Error: no =c2
assistant:  c3=mcp__t__echo({"text":5})
tool: Error: validating "arguments": validating root: validating /properties/text: type: 5 has type "integer", want "string" =c3
assistant:  c4=own({})
tool: mine =c4`)
	requests := r.model.Requests()
	first := tools(requests[0])
	if !strings.HasPrefix(first, "own mcp__t__append_to mcp__t__child mcp__t__count ") {
		t.Error(first)
	}
	for _, q := range requests {
		expect.Equal(t, "tools", tools(q), first)
	}
}

func tools(q modelserver.Request) string {
	var names []string
	for _, t := range q.Tools {
		names = append(names, t.Function.Name)
	}
	return strings.Join(names, " ")
}

// A tool of which only the start is known runs again by its server's hints. What asks, asks before it runs.
func TestStepsOfServers(t *testing.T) {
	t.Parallel()
	const approve = `{"tools": "mcp__t__ap*", "approvers": ["ops/*"]}`
	file := filepath.Join(t.TempDir(), "appended")
	use := func(name, ask string, before agent.StepState, decision session.Decision) (result, story string) {
		r := newRig(t, Config{MCPFile: servers(t, ask)}, call("c1", name, `{"text":"`+file+`"}`), text("ok"))
		tn := turn("go")
		tn.Host.Ask = func(_ context.Context, q agent.Question) (session.Decision, error) {
			story += fmt.Sprintf("asks %s %v, ", q.Name, q.Approvers)
			return decision, nil
		}
		tn.Host.StartStep = func(ctx context.Context, s agent.StepSpec) (agent.StepRecord, error) {
			if strings.HasPrefix(s.Key, "response:") {
				return agent.StepRecord{State: agent.StepNew}, nil
			}
			story += fmt.Sprintf("safe %v, again %v", s.Safe, s.RunAgain)
			if s.Permit != nil {
				if err := s.Permit(ctx); err != nil {
					return agent.StepRecord{}, err
				}
			}
			return agent.StepRecord{State: before}, nil
		}
		tn.Host.EndStep = func(_ context.Context, s agent.StepSpec, e agent.StepEnd) error {
			if !strings.HasPrefix(s.Key, "response:") {
				result = string(e.Output) + e.Error
			}
			return nil
		}
		r.must(tn)
		return result, story
	}
	for _, c := range []struct {
		tool, ask     string
		before        agent.StepState
		decision      session.Decision
		result, story string
	}{
		{"echo", "", agent.StepUnknown, "", `"` + file + `"`, "safe true, again true"},
		{"count", "", agent.StepUnknown, "", `1`, "safe false, again true"},
		{"append_to", "", agent.StepUnknown, "", cutOff, "safe false, again false"},
		{"append_to", approve, agent.StepNew, session.Deny, errDenied.Error(), "safe false, again falseasks mcp__t__append_to [ops/*], "},
		{"append_to", approve, agent.StepNew, session.Allow, `"<nil>"`, "safe false, again falseasks mcp__t__append_to [ops/*], "},
	} {
		result, story := use("mcp__t__"+c.tool, c.ask, c.before, c.decision)
		expect.Equal(t, c.tool, result, c.result)
		expect.Equal(t, c.tool, story, c.story)
	}
	done, err := os.ReadFile(file)
	expect.OK(t, err)
	expect.Equal(t, "it ran once", string(done), "x")
}

// A warm agent keeps its servers from turn to turn, and nothing of them after Close. Another turn has its own.
func TestServersAreKept(t *testing.T) {
	t.Parallel()
	count := func(id string) modelserver.Response { return call(id, "mcp__t__count", `{}`) }
	r := newRig(t, Config{MCPFile: servers(t, "")}, count("c1"), text("ok"), count("c2"), text("ok"), count("c3"), text("ok"))
	keeps, ok := r.agent.KeepServers().(agent.Warmer)
	if !ok {
		t.Fatal("it is no Warmer")
	}
	kept, err := keeps.Warm(t.Context(), turn("go"))
	expect.OK(t, err)
	for range 2 {
		_, err = kept.Run(t.Context(), emitting(turn("go"), r.emit))
		expect.OK(t, err)
	}
	expect.OK(t, kept.Close())
	r.must(turn("go"))
	for n, want := range []string{"1", "2", "1"} {
		messages := r.model.Requests()[2*n+1].Messages
		expect.Equal(t, "count", messages[len(messages)-1].Text(), want)
	}
	if _, warm := newRig(t, Config{}).agent.KeepServers().(agent.Warmer); warm {
		t.Error("without servers it is a Warmer")
	}
}

// Without a server the turn goes on, and its user learns it. So it is with tools for which there is no room.
func TestTurnWithoutServers(t *testing.T) {
	t.Parallel()
	r := newRig(t, Config{MCPFile: servers(t, "", "die")}, text("ok"))
	r.must(turn("go"))
	r.told(`
notice: The tools of t are missing in this turn.
text: ok`)
	r = newRig(t, Config{MCPFile: servers(t, ""), ContextTokens: 150}, text("ok"))
	r.must(turn("go"))
	if story := r.story(); !strings.HasPrefix(story, "notice: 1") || !strings.Contains(story, " tools were left out in this turn: there are too many.\ntext: ok") {
		t.Error(story)
	}
}

func TestFileOfServers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(path, []byte(`{"mcpServers": {"a": {}}}`), 0o600))
	_, err := New(Config{URL: "http://127.0.0.1:1/v1", Model: "m", MCPFile: path, Logger: slog.Default()})
	if err == nil || !strings.HasSuffix(err.Error(), `server "a": it needs either a command or a url`) {
		t.Error(err)
	}
}
