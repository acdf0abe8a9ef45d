package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		"no prompt there":  {with(model, "TURNSTILE_SYSTEM_PROMPT_FILE", dir+"/none"), "setting TURNSTILE_SYSTEM_PROMPT_FILE: open "},
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

// The model receives the text of the system prompt's file without its last line break.
func TestSystemPromptFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "prompt")
	if err := os.WriteFile(path, []byte("Be brief.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := load(t, map[string]string{"TURNSTILE_MODEL": "m", "TURNSTILE_SYSTEM_PROMPT_FILE": path})
	c, err := openAIFiles(s, openAIConfig(s, nil))
	if err != nil || c.SystemPrompt != "Be brief." {
		t.Errorf("%q, %v", c.SystemPrompt, err)
	}
}
