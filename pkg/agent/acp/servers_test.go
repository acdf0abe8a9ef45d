package acp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// An agent gets the servers that it can reach with each way to a session, with their secrets.
func TestServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "mcp.json")
	expect.OK(t, os.WriteFile(path, []byte(`{"mcpServers": {
		"files": {"command": "npx", "args": ["-y"], "env": {"SECRET": "${ACP_TEST_ONE}"}},
		"notes": {"url": "https://h/mcp", "headers": {"Authorization": "Bearer ${ACP_TEST_ONE}"}},
		"old": {"url": "https://h/sse", "type": "sse"}}}`), 0o600))
	const files = `{"args":["-y"],"command":"npx","env":[{"name":"SECRET","value":"1"}],"name":"files"}`
	const notes = `,{"headers":[{"name":"Authorization","value":"Bearer 1"}],"name":"notes","type":"http","url":"https://h/mcp"}`
	const old = `,{"headers":[],"name":"old","type":"sse","url":"https://h/sse"}`
	for _, c := range []struct{ abilities, method, want string }{
		{"echo", "session/new", files},
		{"echo can-http", "session/new", files + notes},
		{"echo can-http can-sse can-load", "session/load", files + notes + old},
		{"echo can-sse can-resume", "session/resume", files + old},
	} {
		log := filepath.Join(t.TempDir(), "log")
		a := newAgent(t, Config{Command: actorCommand(t, append(strings.Fields(c.abilities), "log="+log)...), MCPFile: path})
		tn := turnWith(t, "hi")
		tn.State = json.RawMessage(`{"agent":"acp","id":"kept"}`)
		_, err := play(t.Context(), a, tn)
		expect.OK(t, err)
		said, err := os.ReadFile(log)
		expect.OK(t, err)
		_, after, _ := strings.Cut(string(said), " "+c.method+" ")
		line, _, _ := strings.Cut(after, "\n")
		var params struct {
			Servers json.RawMessage `json:"mcpServers"`
		}
		expect.OK(t, json.Unmarshal([]byte(line), &params))
		expect.Equal(t, c.abilities, string(params.Servers), "["+c.want+"]")
	}
	expect.OK(t, os.WriteFile(path, []byte(`{}`), 0o600))
	if _, err := New(Config{Command: []string{"x"}, MCPFile: path}); err == nil || !strings.HasSuffix(err.Error(), `it has no "mcpServers"`) {
		t.Error(err)
	}
}
