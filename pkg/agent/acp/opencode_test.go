package acp

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/internal/process/confine"
	"turnstile/internal/process/workspace"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
)

// program is a real agent, from a variable or from PATH.
func program(t *testing.T, variable, name string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		var err error
		if path, err = exec.LookPath(name); err != nil {
			t.Skipf("NOT TESTED: A REAL %s. IT IS NOT IN PATH, AND %s DOES NOT SAY WHERE IT IS", strings.ToUpper(name), variable)
		}
	}
	return path
}

var scriptedModel = map[string]any{"limit": map[string]any{"context": 32000, "output": 4000}}

// opencode is `opencode acp` with a separate home, which uses this model for everything.
func opencode(t *testing.T, model *modelserver.Server, isolation agent.Isolation) *Agent {
	t.Helper()
	path := program(t, "TURNSTILE_TEST_OPENCODE", "opencode")
	home := t.TempDir()
	work, port := filepath.Join(home, "work"), 0
	if isolation.Level != "" {
		// It has a server for itself.
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		expect.OK(t, err)
		port = l.Addr().(*net.TCPAddr).Port
		expect.OK(t, l.Close())
		isolation.Ports, isolation.Listen = append(isolation.Ports, port), []int{port}
		place, err := workspace.Root{Path: work}.Place(t.Name(), "default")
		expect.OK(t, err)
		home = place.Home
	}
	config, err := json.Marshal(map[string]any{
		"autoupdate": false, "share": "disabled", "model": "scripted/m", "small_model": "scripted/m",
		"enabled_providers": []string{"scripted"}, "permission": map[string]any{"bash": "ask"},
		"provider": map[string]any{"scripted": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "Scripted", // part of opencode
			"options": map[string]any{"baseURL": model.URL(), "apiKey": "k"},
			"models":  map[string]any{"m": scriptedModel, "n": scriptedModel},
		}},
	})
	expect.OK(t, err)
	return newAgent(t, Config{
		Command: []string{
			"env", "HOME=" + home, "OPENCODE_CONFIG_CONTENT=" + string(config), "OPENCODE_DISABLE_AUTOUPDATE=1",
			"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", path, "acp", "--port", strconv.Itoa(port),
		},
		Workspace: work, Isolation: isolation,
	})
}

// answering makes a model of a function that receives the user's last text. The requests that
// opencode makes for itself, for a title, have no tools.
func answering(t *testing.T, answer func(r modelserver.Request, said string) modelserver.Response) *modelserver.Server {
	t.Helper()
	model := modelserver.New(t)
	model.Otherwise(func(r modelserver.Request) modelserver.Response {
		if len(r.Tools) == 0 {
			return modelserver.Reply("A title of the model")
		}
		said := ""
		for _, m := range r.Messages {
			if m.Role == "user" {
				said = m.Text()
			}
		}
		return answer(r, said)
	})
	return model
}

func TestOpencode(t *testing.T) {
	t.Parallel()
	testOpencode(t, func(string) agent.Isolation { return agent.Isolation{} })
}

func TestOpencodeConfined(t *testing.T) {
	t.Parallel()
	if err := confine.Check(); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	testOpencode(t, func(address string) agent.Isolation {
		server, err := url.Parse(address)
		expect.OK(t, err)
		number, err := strconv.Atoi(server.Port())
		expect.OK(t, err)
		return agent.Isolation{Level: agent.IsolationConfined, Ports: []int{number}}
	})
}

func testOpencode(t *testing.T, isolation func(address string) agent.Isolation) {
	model := answering(t, func(r modelserver.Request, said string) modelserver.Response {
		switch {
		case strings.Contains(said, "Ann"):
			return modelserver.Stream(modelserver.Text("Hello ", "Ann."), modelserver.UseCached(40, 30, 5))
		case r.Messages[len(r.Messages)-1].Role == "tool":
			return modelserver.Reply("It printed " + strings.TrimSpace(r.Last()))
		case strings.Contains(said, "print"):
			return modelserver.Stream(modelserver.Call("c1", "bash", `{"command":"echo mar`, `zipan","description":"prints"}`))
		}
		name := "nobody"
		if slices.ContainsFunc(r.Messages, func(m modelserver.Message) bool { return strings.Contains(m.Text(), "I am Ann") }) {
			name = "Ann"
		}
		return modelserver.Reply("You are " + name)
	})
	a := opencode(t, model, isolation(model.URL()))
	first := turnWith(t, "I am Ann")
	w := warmed(t, a, first)
	h, err := runWarm(t, w, first)
	expect.OK(t, err)
	if h.text() != "Hello Ann." {
		t.Errorf("said\n%s", h.story())
	}
	used := h.of(session.EventUsage)
	t.Logf("the first turn's events:\n%s", h.story())
	if len(used) == 0 || !slices.ContainsFunc(used, func(e agent.Event) bool { return e.Usage.InputTokens == 40 && e.Usage.CachedTokens == 30 }) {
		t.Error("its usage was not told")
	}
	if h, err = runWarm(t, w, turnWith(t, "who am I?")); err != nil || h.text() != "You are Ann" {
		t.Errorf("in the same process: %v\n%s", err, h.story())
	}

	// A tool that needs a permission.
	turn := turnWith(t, "print it")
	var asked agent.Question
	turn.Host.Ask = func(_ context.Context, q agent.Question) (session.Decision, error) {
		asked = q
		return session.Allow, nil
	}
	h, err = runWarm(t, w, turn)
	expect.OK(t, err)
	t.Logf("the tool's events:\n%s\nasked %+v %s", h.story(), asked, asked.Input)
	if h.text() != "It printed marzipan" || asked.CallID == "" || !asked.CanRemember {
		t.Errorf("said %q, asked %+v", h.text(), asked)
	}
	starts, ends := h.of(session.EventToolStart), h.of(session.EventToolEnd)
	if len(starts) != 1 || len(ends) != 1 || !strings.Contains(string(starts[0].Input), "echo marzipan") || !strings.Contains(string(ends[0].Output), "marzipan") {
		t.Errorf("tools %+v, %+v", starts, ends)
	}

	if len(a.config.Isolation.Listen) > 0 {
		expect.OK(t, w.Close()) // two of them cannot have one port
	}
	// Another worker's process resumes the session.
	again := turnWith(t, "who am I?")
	again.State, again.History = h.state(t), someHistory
	if h, err = play(t.Context(), a, again); err != nil || h.text() != "You are Ann" {
		t.Errorf("in another process: %v\n%s", err, h.story())
	}
	if string(h.state(t)) != string(again.State) {
		t.Errorf("state %s, was %s", h.state(t), again.State)
	}
	// It has lost the session, so it receives the history.
	again.State = json.RawMessage(`{"agent":"acp","id":"ses_nobody"}`)
	if h, err = play(t.Context(), a, again); err != nil || !strings.Contains(string(model.Requests()[len(model.Requests())-1].Body), "my name is Ann") {
		t.Errorf("with a session that is not known: %v\n%s", err, h.story())
	}
}

// A text that begins with a slash reaches the model, unless it is a command that the operator allows.
func TestOpencodeUsersWords(t *testing.T) {
	t.Parallel()
	model := answering(t, func(_ modelserver.Request, said string) modelserver.Response {
		return modelserver.Reply("heard " + said)
	})
	a := opencode(t, model, agent.Isolation{})
	a.config.Commands = []string{"init"}
	first := turnWith(t, "hello")
	w := warmed(t, a, first)
	for _, text := range []string{"hello", "/etc/hosts is wrong", " /compact", "/foo bar", "see @/etc/hosts"} {
		h, err := runWarm(t, w, turnWith(t, text))
		if want := strings.TrimPrefix(text, "see @"); err != nil || !strings.HasPrefix(h.text(), "heard ") || !strings.HasSuffix(h.text(), want) {
			t.Errorf("%q: %v, %q", text, err, h.text())
		}
	}
	h, err := runWarm(t, w, turnWith(t, "/init"))
	if err != nil || !strings.Contains(h.text(), "AGENTS.md") {
		t.Errorf("the allowed command: %v, %q", err, h.text())
	}
}

// The operator's model and mode are those that OpenCode works with.
func TestOpencodeModelAndMode(t *testing.T) {
	t.Parallel()
	var used modelserver.Request
	model := answering(t, func(r modelserver.Request, _ string) modelserver.Response {
		used = r
		return modelserver.Reply("ok")
	})
	a := opencode(t, model, agent.Isolation{})
	a.config.Model, a.config.Mode = "scripted/n", "plan"
	h, err := play(t.Context(), a, turnWith(t, "hello"))
	expect.OK(t, err)
	expect.Equal(t, "reply, model", h.text()+" "+used.Model, "ok n")
	if !strings.Contains(string(used.Body), "Plan mode") {
		t.Errorf("it is not in its mode: %s", used.Body)
	}
	a.config.Mode = "nonsense"
	_, err = play(t.Context(), a, turnWith(t, "hello"))
	failed(t, err, false, `TURNSTILE_ACP_MODE is "nonsense", which is no mode of the agent: use one of `)
	t.Log(err)
}

func TestOpencodeIsCancelled(t *testing.T) {
	t.Parallel()
	model := answering(t, func(modelserver.Request, string) modelserver.Response {
		return modelserver.Stream(modelserver.Text("I begin"), modelserver.Hang())
	})
	a := opencode(t, model, agent.Isolation{})
	cause := errors.New("stopped")
	took, closed, _, _ := stopping(t, a, cause, "talk for ever")
	t.Logf("it took %s to cancel, %s until it was gone", took, closed)
	if closed > a.config.Grace+5*time.Second {
		t.Errorf("gone after %s", closed)
	}
}

// Gemini CLI cannot be pointed at another model, so the test only initializes it.
func TestGeminiInitializes(t *testing.T) {
	t.Parallel()
	path := program(t, "TURNSTILE_TEST_GEMINI", "gemini")
	a := newAgent(t, Config{Command: []string{"env", "HOME=" + t.TempDir(), path, "--acp"}, Workspace: t.TempDir()})
	_, err := a.Warm(t.Context(), turnWith(t))
	failed(t, err, false, "the agent is not logged in: log it in first")
	t.Log(err)
}
