package cli

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// Each program gets the same servers in its way. None gets a secret on its command line.
func TestServers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(path, []byte(`{"mcpServers": {
		"files": {"command": "npx", "args": ["-y", "a \"b\""], "env": {"PLAIN": "1", "SECRET": "${OTHER_TEST}"}},
		"my-notes": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${OTHER_TEST}", "X-Key": "k"}, "trust": true}}}`), 0o600))
	secret := os.Getenv("OTHER_TEST")
	for kind, want := range map[Kind]struct{ options, env string }{
		Claude: {"--mcp-config " + path, "OTHER_TEST=" + secret},
		Codex: {
			`-c mcp_servers.files={command="npx",args=["-y","a \"b\""],env={"PLAIN"="1"},env_vars=["SECRET"]} ` +
				`-c mcp_servers.my-notes={url="https://h/mcp",env_http_headers={"Authorization"="MCP_HEADER_my_notes_0","X-Key"="MCP_HEADER_my_notes_1"},default_tools_approval_mode="approve"}`,
			"SECRET=" + secret + " MCP_HEADER_my_notes_0=Bearer " + secret + " MCP_HEADER_my_notes_1=k",
		},
		Gemini: {"", "OTHER_TEST=" + secret + " GEMINI_CLI_SYSTEM_DEFAULTS_PATH=" + path},
	} {
		command, listen := fakeProgram(t, play{Out: sayings[kind]})
		playTurn(t, newAgent(t, kind, Config{Command: command, Model: "m-1", MCPFile: path}), turn("hi")).wantReply(t, "ok")
		h := listen()[0]
		expect.Equal(t, string(kind), strings.Join(h.Args, " "), strings.TrimSpace(want.options+" "+options[kind][0]))
		for _, entry := range h.Env {
			want.env = strings.Replace(want.env, entry, "", 1)
		}
		expect.Equal(t, string(kind)+"'s variables that are missing", strings.TrimSpace(want.env), "")
		if slices.ContainsFunc(h.Args, func(arg string) bool { return strings.Contains(arg, secret) }) {
			t.Errorf("%s: %q", kind, h.Args)
		}
	}
}

// Gemini CLI works without the servers, so the log says why.
func TestServersThatGeminiIgnores(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(path, []byte(`{"mcpServers": {}}`), 0o600))
	expect.OK(t, os.Chmod(path, 0o666))
	var said bytes.Buffer
	newAgent(t, Gemini, Config{MCPFile: path, Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if !strings.Contains(said.String(), "only root may write to it and to all directories above it\" path="+path) {
		t.Errorf("the log says %s", &said)
	}
}

// What a program cannot be given, or not without showing it to others, is an error of the start.
func TestServersThatCannotBeGiven(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"a": {"url": "https://h/?key=${OTHER_TEST}"}`:                                                                     "server a: its url has a ${NAME}",
		`"a": {"url": "https://h/sse", "type": "sse"}`:                                                                     "server a: Codex does not know the type sse",
		`"a": {"command": "x", "env": {"K": "${OTHER_TEST}"}}, "b": {"command": "x", "env": {"K": "${OTHER_TEST} again"}}`: "server b: another server has another value of K",
		`"a-b": {"url": "https://h", "headers": {"K": "1"}}, "a_b": {"url": "https://h", "headers": {"K": "2"}}`:           "the names of two servers differ only by - and _",
		`"a": {"command": "x", "env": {"OPENAI_API_KEY": "${OTHER_TEST}"}}`:                                                "server a: Codex itself would get this value of OPENAI_API_KEY",
		`"a": {}`: "server \"a\": ",
	} {
		path := filepath.Join(t.TempDir(), "mcp.json")
		expect.OK(t, os.WriteFile(path, []byte(`{"mcpServers": {`+text+`}}`), 0o600))
		_, err := New(Codex, Config{MCPFile: path})
		if err == nil || !strings.HasPrefix(err.Error(), "agent codex: MCP servers: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	path := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(path, []byte(`{"mcpServers": {"a": {"url": "https://h/mcp"}}}`), 0o600))
	_, err := New(Claude, Config{MCPFile: path})
	if err == nil || !strings.HasSuffix(err.Error(), `Claude Code ignores a url without a type: add "type": "http"`) {
		t.Error(err)
	}
}
