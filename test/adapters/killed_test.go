package adapters

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// adapter is one way of running an agent.
type adapter struct {
	settings func(t *testing.T, self, dir string) []string

	// again is the text that the second run must receive besides the note, if it resumes the
	// agent's own session.
	again string
	tells bool // its reply repeats what it received
}

func command(role string, settings ...string) func(*testing.T, string, string) []string {
	return func(_ *testing.T, self, dir string) []string {
		return append([]string{fmt.Sprintf("TURNSTILE_AGENT_COMMAND='%s' role=%s '%s'", self, role, dir)}, settings...)
	}
}

func adapters() map[string]adapter {
	return map[string]adapter{
		"exec text":  {command("text", "TURNSTILE_AGENT=exec"), "", true},
		"exec jsonl": {command("jsonl", "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_FORMAT=jsonl"), `{"id":"mine"}`, true},
		"claude":     {command("claude", "TURNSTILE_AGENT=claude"), "--resume=c0ffee", true},
		"codex":      {command("codex", "TURNSTILE_AGENT=codex"), "resume c0ffee", true},
		"gemini":     {command("gemini", "TURNSTILE_AGENT=gemini"), "--resume c0ffee", true},
		"acp":        {command("acp", "TURNSTILE_AGENT=acp"), "resumed c0ffee", true},
		"model": {modelAgent("work", "TURNSTILE_TOOLS_FILE", func(self, dir string) any {
			return []object{{"name": "work", "description": "works", "parameters": object{"type": "object"}, "argv": []string{self, "role=tool", dir}}}
		}), "", false},
		"model with a server": {modelAgent("mcp__s__work", "TURNSTILE_MCP_FILE", func(self, dir string) any {
			return object{"mcpServers": object{"s": object{"command": self, "args": []string{"role=mcp", dir}}}}
		}), "", false},
	}
}

// The next worker resumes the turn of a dead worker, with the part that the user has seen. When its
// agent starts, no process of the old one lives.
func TestWorkerIsGoneInMidTurn(t *testing.T) {
	t.Parallel()
	ways := map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP}
	for name, a := range adapters() {
		for way, signal := range ways {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				goneInMidTurn(t, a, signal)
			})
		}
	}
}

func goneInMidTurn(t *testing.T, a adapter, signal syscall.Signal) {
	client, dir := actors.NewClient(redistest.New(t)), t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	settings := a.settings(t, self, dir)
	first := startWorker(t, settings)
	const key, id = "s", "m1"
	if _, err := client.Session(key).Send(t.Context(), turnstile.Message{ID: id, Text: "do it"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), expect.Patience)
	defer cancel()
	var resumes []string
	gone := false
	outcome, err := actors.Follow(ctx, client.Session(key), id, func(e session.Event) {
		if !gone && e.Type == "text" && strings.Contains(e.Text, begun) {
			expect.Soon(t, "the first run, which writes down what it has started", func() bool {
				_, err := os.Stat(filepath.Join(dir, "pids"))
				return err == nil
			})
			gone = true
			first.Signal(signal)
			startWorker(t, settings)
		}
		if e.Type == session.EventTurnStarted {
			resumes = append(resumes, e.Resume)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Status != session.StatusDone || len(resumes) != 2 || resumes[1] != "crash" {
		t.Errorf("%+v after starts %q", outcome, resumes)
	}
	if a.tells && (!strings.Contains(outcome.Reply, ending) || !strings.Contains(outcome.Reply, "interrupted") || !strings.Contains(outcome.Reply, a.again)) {
		t.Errorf("the reply lacks the note, or %q:\n%s", a.again, outcome.Reply)
	}
	for _, bad := range []string{"alive", "trouble"} {
		if text, err := os.ReadFile(filepath.Join(dir, bad)); err == nil {
			t.Errorf("%s: %s", bad, text)
		}
	}
	if pids, _ := os.ReadFile(filepath.Join(dir, "pids")); len(strings.Fields(string(pids))) != 4 {
		t.Errorf("two runs with a child each, not %q", pids)
	}
	first.Signal(syscall.SIGCONT)
	entries, err := actors.Transcript(ctx, client.Session(key), outcome.TranscriptID)
	if err != nil || len(entries) < 2 || entries[0].Text != "do it" {
		t.Errorf("%+v, %v", entries, err)
	}
	for _, e := range entries[1:] {
		if e.Role == session.RoleUser {
			t.Errorf("a second set of entries: %+v", entries)
		}
	}
}

// startWorker starts the worker's program.
func startWorker(t *testing.T, settings []string) *program.Process {
	t.Helper()
	return program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), append([]string{
		"REDIS_URL=" + redistest.URL(t), "TURNSTILE_LOG_LEVEL=debug",
		"TURNSTILE_SENTINEL_TTL=" + expect.Lease(time.Second).String(), "TURNSTILE_DRAIN_TIMEOUT=0", "TURNSTILE_INTERRUPT_GRACE=0",
	}, settings...)))
}

// modelAgent is a model that writes a text and then calls a tool of the setting's file. It ends with the tool's output.
func modelAgent(tool, setting string, file func(self, dir string) any) func(t *testing.T, self, dir string) []string {
	return func(t *testing.T, self, dir string) []string {
		model := modelserver.New(t)
		model.Otherwise(func(r modelserver.Request) modelserver.Response {
			if r.Messages[len(r.Messages)-1].Role == "tool" && strings.Contains(r.Last(), "the tool's output") {
				return modelserver.Reply("done")
			}
			return modelserver.Stream(modelserver.Text(begun), modelserver.Call("c1", tool, "{}"))
		})
		text, err := json.Marshal(file(self, dir))
		expect.OK(t, err)
		path := filepath.Join(dir, "file.json")
		expect.OK(t, os.WriteFile(path, text, 0o600))
		return []string{"TURNSTILE_AGENT=model", "OPENAI_BASE_URL=" + model.URL(), "TURNSTILE_MODEL=m", setting + "=" + path}
	}
}
