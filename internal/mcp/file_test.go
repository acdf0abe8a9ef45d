package mcp

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
)

func load(t *testing.T, text string) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	f, err := Load(path)
	if err != nil {
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), path+": ", ""))
	}
	return f, err
}

// Files as they are copied from other programs.
func TestFile(t *testing.T) {
	t.Parallel()
	f, err := load(t, `{"inputs": [], "mcpServers": {
		"b": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"TOKEN": "${MCP_TEST_TOKEN}", "PLAIN": "1", "OTHER": "${MCP_TEST_NONE:-d}"}, "alwaysAllow": ["x"], "timeout": 5},
		"a": {"url": "https://h/mcp?k=${MCP_TEST_TOKEN}", "headers": {"Authorization": "Bearer ${MCP_TEST_TOKEN}"}, "trust": true},
		"off": {"command": "./relative", "disabled": true},
		"old": {"type": "sse", "url": "http://h/sse"}},
		"ask": [{"tools": "mcp__b__pay", "approvers": ["ops/*"]}, {"tools": "mcp__*"}]}`)
	expect.OK(t, err)
	a, b := f.Servers[0], f.Servers[1]
	expect.Equal(t, "a", fmt.Sprint(a.Name, a.URL, a.Headers, a.SSE), "ahttps://h/mcp?k=token-of-the-testmap[Authorization:Bearer token-of-the-test] false")
	expect.Equal(t, "b", fmt.Sprint(b.Command, b.Args, b.Env, b.Referring), "npx[-y x] map[OTHER:d PLAIN:1 TOKEN:token-of-the-test] [OTHER TOKEN]")
	expect.Equal(t, "old", fmt.Sprint(len(f.Servers), f.Servers[2].SSE), "3 true")
	expect.List(t, "variables", f.Variables(), "MCP_TEST_TOKEN=token-of-the-test")
	pays, ask := f.asking("mcp__b__pay")
	expect.Equal(t, "paying asks", fmt.Sprint(ask, pays.Approvers), "true [ops/*]")
	other, ask := f.asking("mcp__a__x")
	expect.Equal(t, "others ask", fmt.Sprint(ask, other.Approvers), "true []")
	expect.Equal(t, "hidden", hiding(a).Replace("token-of-the-test at https://h/mcp?k=token-of-the-test"), "*** at ***")
}

// Each mistake is one line that names the server, and has no secret.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`:                                     "it is not a JSON object with servers",
		`{`:                                      "it is not a JSON object with servers",
		`{"servers": {}}`:                        `it has no "mcpServers"`,
		`{"mcpServers": {"a": 1}}`:               `server "a": json: cannot unmarshal number`,
		one(`"command": "x", "url": "http://h"`): `server "a": it needs either a command or a url`,
		one(`"args": ["x"]`):                     `server "a": it needs either a command or a url`,
		one(`"command": "x", "headers": {"a": "b"}`):                                                      `server "a": args and env belong to a command, headers to a url`,
		one(`"command": "./x"`):                                                                           `server "a": its command is a relative path: write an absolute one, for agents work in other directories`,
		one(`"command": "x", "args": ["${MCP_TEST_TOKEN}"]`):                                              `server "a": its command or args have a ${NAME}`,
		one(`"command": "x", "type": "http"`):                                                             `server "a": the type "http" does not fit`,
		one(`"url": "h"`):                                                                                 `server "a": its url is not an address: write it as https://HOST/PATH`,
		one(`"url": "http://h", "headers": {"a": "b\n"}`):                                                 `server "a": headers: "a" cannot be a header, or its value has a line break`,
		one(`"command": "x", "env": {"A B": "1"}`):                                                        `server "a": env: "A B" cannot be a server's variable`,
		one(`"command": "x", "env": {"TURNSTILE_X": "1"}`):                                                `server "a": env: "TURNSTILE_X" cannot be a server's variable`,
		one(`"command": "x", "env": {"A": "${MCP_TEST_NONE}"}`):                                           `server "a": the variable MCP_TEST_NONE is not set: set it for the worker, or write ${MCP_TEST_NONE:-DEFAULT}`,
		one(`"command": "x", "env": {"A": "${TURNSTILE_TEST_OWN}"}`):                                      `server "a": ${TURNSTILE_TEST_OWN}: the worker's own settings are not for servers`,
		one(`"command": "x", "env": {"A": "${REDIS_URL}"}`):                                               `server "a": ${REDIS_URL}: the worker's own settings are not for servers`,
		`{"mcpServers": {"a b": {"command": "x"}}}`:                                                       `server "a b": use at most 40 letters, digits, _ and - for the name`,
		`{"mcpServers": {"a": {"command": "x"}}, "ask": [{"tool": "x"}]}`:                                 "ask 1: invalid JSON: ",
		`{"mcpServers": {"a": {"command": "x"}}, "ask": [{"tools": "mcp__b__*"}]}`:                        "ask 1: no server has a tool with such a name",
		`{"mcpServers": {"a": {"command": "x"}}, "ask": [{"tools": "pay.now"}]}`:                          "ask 1: tools is not a pattern of names",
		`{"mcpServers": {"a": {"command": "x"}}, "ask": [{"tools": "mcp__a__*", "approvers": ["a//b"]}]}`: "ask 1: ",
	} {
		_, err := load(t, text)
		if got := fmt.Sprint(err); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") || strings.Contains(got, "token-of") {
			t.Errorf("%s: %s", text, got)
		}
	}
	_, err := load(t, `{"mcpServers": {"a": {}, "b": {}}}`)
	expect.Equal(t, "lines", strings.Count(fmt.Sprint(err), "\n"), 1)
}

func one(text string) string { return `{"mcpServers": {"a": {` + text + `}}}` }

func TestToolNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 60)
	taken := map[string]bool{}
	for _, c := range [][2]string{
		{"pay", "mcp__bank__pay"}, {"pay.now", "mcp__bank__pay_now"}, {"pay_now", "mcp__bank__pay_now_" + "064240d5"}, {"ü", "mcp__bank___"},
		{long, "mcp__bank__" + long[:44] + "_" + "42f2d973"},
	} {
		name, _ := toolName("bank", c[0], func(name string) bool { return taken[name] })
		taken[name] = true
		expect.Equal(t, c[0], name, c[1])
		expect.Equal(t, "fits", len(name) <= longest, true)
	}
}
