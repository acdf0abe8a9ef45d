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
	"turnstile/pkg/agent/openai"
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
	model := map[string]string{"TURNSTILE_AGENT": "openai", "TURNSTILE_MODEL": "m", "TURNSTILE_OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
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
		"openai":           {model, "*openai.Agent"},
		"no file there":    {with(model, "TURNSTILE_OPENAI_FILE", dir+"/none"), "setting TURNSTILE_OPENAI_FILE: open "},
		"no tools there":   {with(model, "TURNSTILE_TOOLS_FILE", dir+"/none"), "setting TURNSTILE_TOOLS_FILE: "},
		"no tools in it":   {with(model, "TURNSTILE_TOOLS_FILE", file("bad.json", "{")), "setting TURNSTILE_TOOLS_FILE: "},
		"a key in a folly": {with(model, "TURNSTILE_OPENAI_API_KEY", "geheim\n2"), "setting TURNSTILE_AGENT=openai: "},
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

// The model gets the values of TURNSTILE_OPENAI_FILE.
func TestOpenAIFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "model.json")
	read := func(text string) (openai.Config, error) {
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		s := load(t, map[string]string{"TURNSTILE_MODEL": "m", "TURNSTILE_OPENAI_FILE": path})
		return openAIFiles(s, openAIConfig(s, nil))
	}
	c, err := read(`{"system_prompt": "Be brief.\n", "temperature": 0.5, "max_tokens": 30, "context_tokens": 3100, "tool_rounds": 32, "tool_timeout": "33s"}`)
	if err != nil || c.SystemPrompt != "Be brief." || *c.Temperature != 0.5 || c.MaxTokens != 30 || c.ContextTokens != 3100 || c.ToolRounds != 32 || c.ToolTimeout != 33*time.Second || c.Model != "m" {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		`{`: "JSON", `[]`: "object", `{"max_token": 1}`: "max_token", `{"tool_timeout": 3}`: "tool_timeout", `{"temperature": 2.1}`: "temperature: use a number from 0 to 2",
		`{"max_tokens": -1}`: "use 0, for the default, or more", `{"tool_rounds": -1}`: "tool_rounds", `{"tool_timeout": "-1s"}`: "tool_timeout", `{"context_tokens": 99}`: "context_tokens: use at least 100",
	} {
		_, err := read(text)
		line := fmt.Sprint(err)
		if !errors.Is(err, config.ErrInvalid) || !strings.HasPrefix(line, "setting TURNSTILE_OPENAI_FILE: "+path+": ") || !strings.Contains(line, want) || strings.Contains(line, "\n") {
			t.Errorf("%s: %q, want one line with %q", text, line, want)
		}
	}
}
