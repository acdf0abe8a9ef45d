package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/internal/program/config"
	"turnstile/internal/protocol/agreement"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A second worker that differs in every setting that must be the same names each in its log, with both
// values and the first worker. `ps --workers` shows them while both live.
func TestEverySettingThatDiffersIsNamed(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	file := func(setting, text string) string {
		path := filepath.Join(t.TempDir(), "file")
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return setting + "=" + path
	}
	const destinations = "TURNSTILE_GATEWAY_DESTINATIONS_FILE" // who has none says nothing about it
	first := echoWorker(t, url, file(destinations, "one"))
	living := func() []agreement.Process {
		all, err := agreement.Living(t.Context(), redistest.New(t))
		expect.OK(t, err)
		return all
	}
	expect.Soon(t, "what the first publishes", func() bool { return len(living()) == 1 })
	one := living()[0]

	settings := []string{
		"REDIS_URL=" + acl.As(t, url, acl.Worker), file(destinations, "two"), "TURNSTILE_AGENT=claude", "TURNSTILE_AGENT_COMMAND=cat -", "TURNSTILE_ASK_TOOLS=Bash", "TURNSTILE_USER_COMMANDS=compact",
		"TURNSTILE_ACP_FILES=true", "TURNSTILE_ACP_TERMINAL=true", "TURNSTILE_WORKSPACE_DIR=" + t.TempDir(), "TURNSTILE_ISOLATION=wrapper", "TURNSTILE_WRAPPER=env",
		file("TURNSTILE_MODEL_FILE", "{}"), file("TURNSTILE_TOOLS_FILE", "[]"), file("TURNSTILE_MCP_FILE", `{"mcpServers": {}}`), file("TURNSTILE_AGENTS_FILE", `{"coder": {"sessions": ["a:*"], "agent": "echo"}}`),
	}
	for name := range one.Settings {
		if value, ok := other[name]; ok && name != "TURNSTILE_AGENT_COMMAND" {
			settings = append(settings, name+"="+value)
		}
	}
	second := start(t, settings)
	second.err.Await(t, "worker started")
	want := []string{"agents"}
	for _, s := range config.WorkerSettings() {
		if strings.Contains(s.Meaning, "Must be the same everywhere.") {
			want = append(want, s.Name)
		}
	}
	for _, name := range want {
		second.err.Await(t, "setting="+name+" own=")
	}
	expect.Equal(t, "warnings", strings.Count(second.err.String(), "a setting that must be the same everywhere differs"), len(want))
	second.err.Await(t, "setting=TURNSTILE_LINE_CAP own=390 other=10000 neighbour="+one.Name+"\n")
	second.err.Await(t, `setting=agents own="coder default" other=default neighbour=`+one.Name+"\n")

	environ := []string{"REDIS_URL=" + url}
	expect.Soon(t, "both heartbeats", func() bool {
		r := call(t, environ, "agents").want(t, exitOK)
		return strings.Contains(r.out, "\ndefault  claude, echo  -         2\n") && strings.Contains(r.err, "workers have different default agents")
	})
	shown := func() (list []any) {
		list, _ = decode(t, call(t, environ, "ps", "--workers", "--json").want(t, exitOK).out).([]any)
		return list
	}
	expect.Equal(t, "workers", len(shown()), 2)
	for _, row := range shown() {
		row, _ := row.(map[string]any)
		differs, _ := row["differs"].(map[string]any)
		expect.Equal(t, "settings that differ", len(differs), len(want))
		value := "390"
		if row["worker"] == one.Name {
			value = "10000"
		}
		expect.Equal[any](t, "of the caps", differs["TURNSTILE_LINE_CAP"], value)
	}
	if out := call(t, environ, "ps", "--workers").want(t, exitOK).out; !strings.Contains(out, " TURNSTILE_LINE_CAP=10000 ") || !strings.Contains(out, " TURNSTILE_LINE_CAP=390 ") {
		t.Errorf("ps --workers: %s", out)
	}
	second.stop(t)
	row, _ := shown()[0].(map[string]any)
	differs, _ := row["differs"].(map[string]any)
	expect.Equal(t, "settings that differ from nobody's", len(differs), 0)
	first.stop(t)
}
