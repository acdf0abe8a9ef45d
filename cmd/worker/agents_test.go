package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnstile/internal/program/config"
	"turnstile/pkg/agent/model"
	"turnstile/test/expect"
)

// The settings choose the agent, and wrong ones are reported.
func TestNewAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	model := map[string]string{"TURNSTILE_AGENT": "model", "TURNSTILE_MODEL": "m", "TURNSTILE_MODEL_URL": "http://127.0.0.1:1/v1"}
	with := func(vars map[string]string, name, value string) map[string]string {
		all := map[string]string{name: value}
		for n, v := range vars {
			all[n] = v
		}
		return all
	}
	for name, c := range map[string]struct {
		vars map[string]string
		want string // of the agent, or of the error
	}{
		"echo":             {map[string]string{"TURNSTILE_AGENT": "echo"}, "*echo.Agent"},
		"exec":             {map[string]string{"TURNSTILE_AGENT": "exec", "TURNSTILE_AGENT_COMMAND": "cat"}, "*exec.Agent"},
		"acp":              {map[string]string{"TURNSTILE_AGENT": "acp", "TURNSTILE_AGENT_COMMAND": "cat --acp"}, "*acp.Agent"},
		"claude":           {map[string]string{"TURNSTILE_AGENT": "claude", "TURNSTILE_AGENT_COMMAND": "cat"}, "*cli.Agent"},
		"openai":           {model, "*model.Agent"},
		"no file there":    {with(model, "TURNSTILE_MODEL_FILE", dir+"/none"), "setting TURNSTILE_MODEL_FILE: open "},
		"no tools there":   {with(model, "TURNSTILE_TOOLS_FILE", dir+"/none"), "setting TURNSTILE_TOOLS_FILE: "},
		"no tools in it":   {with(model, "TURNSTILE_TOOLS_FILE", file("bad.json", "{")), "setting TURNSTILE_TOOLS_FILE: "},
		"a key in a folly": {with(model, "TURNSTILE_MODEL_KEY", "geheim\n2"), "setting TURNSTILE_AGENT=model: "},
	} {
		a, err := newAgent(load(t, c.vars), slog.New(slog.DiscardHandler))
		got := fmt.Sprintf("%T", a)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "geheim") {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	c := acpConfig(load(t, map[string]string{"TURNSTILE_ACP_FILES": "true", "TURNSTILE_WORKSPACE_DIR": dir}), nil)
	if !c.Files || c.Terminal || c.Workspace != dir {
		t.Errorf("%+v", c)
	}
	if c := acpConfig(load(t, map[string]string{"TURNSTILE_ACP_TERMINAL": "true", "TURNSTILE_WORKSPACE_DIR": dir}), nil); c.Files || !c.Terminal {
		t.Errorf("%+v", c)
	}
}

// The model gets the values of TURNSTILE_MODEL_FILE.
func TestModelFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model.json")
	read := func(text string) (model.Config, error) {
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		s := load(t, map[string]string{"TURNSTILE_MODEL": "m", "TURNSTILE_MODEL_FILE": path})
		return modelFiles(s, modelConfig(s, nil))
	}
	c, err := read(`{"system_prompt": "Be brief.\n", "temperature": 0.5, "max_tokens": 30, "thinking": "adaptive", "thinking_tokens": 2000, "context_tokens": 3100, "image_bytes": 7000, "compact": true, "tool_rounds": 32, "tool_timeout": "33s"}`)
	if err != nil || c.SystemPrompt != "Be brief." || *c.Temperature != 0.5 || c.MaxTokens != 30 || c.Thinking != "adaptive" || c.ThinkingTokens != 2000 || c.ContextTokens != 3100 || c.ImageBytes != 7000 || !c.Compact || c.ToolRounds != 32 || c.ToolTimeout != 33*time.Second || c.Model != "m" {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		`{`: "JSON", `[]`: "object", `{"max_token": 1}`: "max_token", `{"tool_timeout": 3}`: "tool_timeout", `{"temperature": 2.1}`: "temperature: use a number from 0 to 2",
		`{"max_tokens": -1}`: "use 0, for the default, or more", `{"tool_rounds": -1}`: "tool_rounds", `{"image_bytes": -1}`: "image_bytes", `{"tool_timeout": "-1s"}`: "tool_timeout", `{"context_tokens": 99}`: "context_tokens: use at least 100",
	} {
		_, err := read(text)
		line := fmt.Sprint(err)
		if !errors.Is(err, config.ErrInvalid) || !strings.HasPrefix(line, "setting TURNSTILE_MODEL_FILE: "+path+": ") || !strings.Contains(line, want) || strings.Contains(line, "\n") {
			t.Errorf("%s: %q, want one line with %q", text, line, want)
		}
	}
}

// The settings at the top of the page are right, and README has the same.
func TestModelSettingsOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/agents/model.md")
	expect.OK(t, err)
	readme, err := os.ReadFile("../../README.md")
	expect.OK(t, err)
	var providers []string
	for line := range strings.Lines(string(page)) {
		settings, isBlock := strings.CutSuffix(strings.TrimSpace(line), " worker")
		if !isBlock || !strings.HasPrefix(line, "    TURNSTILE_AGENT=model ") {
			continue
		}
		vars := map[string]string{}
		for _, word := range strings.Fields(settings) {
			name, value, _ := strings.Cut(word, "=")
			vars[name] = value
		}
		s := load(t, vars)
		_, err := newAgent(s, slog.New(slog.DiscardHandler))
		expect.OK(t, err)
		providers = append(providers, string(s.Provider))
		if !strings.Contains(string(readme), "| `"+settings+"` |") || (s.ModelKey == "") != strings.Contains(s.ModelURL, "127.0.0.1") {
			t.Errorf("%s: README has other settings, or there is no key", settings)
		}
	}
	expect.List(t, "providers", providers, "openai", "anthropic", "openai", "openai", "openai")
}
