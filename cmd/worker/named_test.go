package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"turnstile/internal/program/config"
	"turnstile/test/expect"
)

// checkNamed checks the settings that the agent needs.
func TestCheckNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none.json")
	if err := os.WriteFile(none, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	servers := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(servers, []byte(`{"mcpServers": {"a": {"command": "x"}, "b": {}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const mcp = "setting TURNSTILE_MCP_FILE: "
	type vars = map[string]string
	const program, prompt, tools, workspaces = "setting TURNSTILE_AGENT_COMMAND: ", "setting TURNSTILE_MODEL_FILE: ", "setting TURNSTILE_TOOLS_FILE: ", "setting TURNSTILE_WORKSPACE_DIR="
	model := func(v vars) vars {
		v["TURNSTILE_AGENT"], v["TURNSTILE_MODEL"] = "model", "m"
		return v
	}
	for name, c := range map[string]struct {
		vars vars
		want []string // beginnings of the lines
	}{
		"echo":             {vars{"TURNSTILE_AGENT": "echo", "TURNSTILE_TOOLS_FILE": dir + "/none", "TURNSTILE_WORKSPACE_DIR": "/proc/x"}, nil},
		"exec":             {vars{"TURNSTILE_AGENT": "exec", "TURNSTILE_AGENT_COMMAND": "cat", "TURNSTILE_WORKSPACE_DIR": "/proc/x"}, nil},
		"exec without one": {vars{"TURNSTILE_AGENT": "exec", "TURNSTILE_AGENT_COMMAND": "no-such-agent -x"}, []string{program}},
		"acp":              {vars{"TURNSTILE_AGENT": "acp", "TURNSTILE_AGENT_COMMAND": "cat", "TURNSTILE_WORKSPACE_DIR": dir + "/a/b"}, nil},
		"acp without both": {vars{"TURNSTILE_AGENT": "acp", "TURNSTILE_AGENT_COMMAND": "no-such-agent", "TURNSTILE_WORKSPACE_DIR": file}, []string{program, workspaces}},
		"acp in the open": {vars{"TURNSTILE_AGENT": "acp", "TURNSTILE_AGENT_COMMAND": "cat", "TURNSTILE_WORKSPACE_DIR": open + "/a"}, []string{
			fmt.Sprintf("%s%q cannot be used: another user could have prepared it: everybody may write to %s (mode 777): chmod o-w it, or use another directory", workspaces, open+"/a", open),
		}},
		"claude, a command": {vars{"TURNSTILE_AGENT": "claude", "TURNSTILE_AGENT_COMMAND": "cat", "TURNSTILE_WORKSPACE_DIR": file + "/below"}, []string{workspaces}},
		"codex elsewhere":   {vars{"TURNSTILE_AGENT": "codex", "TURNSTILE_AGENT_COMMAND": dir + "/codex"}, []string{program + "agent codex: "}},
		"isolated, no program": {vars{
			"TURNSTILE_AGENT": "exec", "TURNSTILE_AGENT_COMMAND": "cat", "TURNSTILE_ISOLATION": "wrapper", "TURNSTILE_WORKSPACE_DIR": file,
			"TURNSTILE_WRAPPER": "no-such-wrapper {workspace}", "TURNSTILE_WRAPPER_KILL": "no-such-kill {run}",
		}, []string{workspaces, "setting TURNSTILE_WRAPPER: exec: \"no-such-wrapper\": executable file not found", "setting TURNSTILE_WRAPPER_KILL: exec: "}},
		"wrapped": {vars{
			"TURNSTILE_AGENT": "claude", "TURNSTILE_AGENT_COMMAND": "only-in-the-container", "TURNSTILE_ISOLATION": "wrapper", "TURNSTILE_WORKSPACE_DIR": dir + "/a/b",
			"TURNSTILE_WRAPPER": "env",
		}, nil},
		"tools, isolated": {model(vars{
			"TURNSTILE_TOOLS_FILE": none, "TURNSTILE_ISOLATION": "wrapper", "TURNSTILE_WORKSPACE_DIR": dir + "/a/b", "TURNSTILE_WRAPPER": "no-such-wrapper",
		}), []string{"setting TURNSTILE_WRAPPER: "}},
		"nothing to isolate":  {vars{"TURNSTILE_AGENT": "echo", "TURNSTILE_ISOLATION": "wrapper", "TURNSTILE_WORKSPACE_DIR": file, "TURNSTILE_WRAPPER": "no-such-wrapper"}, nil},
		"openai":              {model(vars{"TURNSTILE_AGENT_COMMAND": "no-such-agent", "TURNSTILE_WORKSPACE_DIR": "/proc/x"}), nil},
		"openai, no files":    {model(vars{"TURNSTILE_MODEL_FILE": dir + "/none", "TURNSTILE_TOOLS_FILE": file}), []string{prompt, tools}},
		"model, a bad server": {model(vars{"TURNSTILE_MCP_FILE": servers}), []string{mcp + servers + `: server "b": it needs either a command or a url`}},
		"acp, no servers":     {vars{"TURNSTILE_AGENT": "acp", "TURNSTILE_AGENT_COMMAND": "cat", "TURNSTILE_MCP_FILE": none}, []string{mcp + none + ": it is not a JSON object with servers"}},
		"exec has no servers": {vars{"TURNSTILE_AGENT": "exec", "TURNSTILE_AGENT_COMMAND": "cat", "TURNSTILE_MCP_FILE": none}, nil},
	} {
		var got []string
		if err := checkNamed(load(t, c.vars)); err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if left, err := os.ReadDir(dir + "/a/b"); err != nil || len(left) > 0 {
		t.Errorf("the check leaves %v, %v", left, err)
	}
}

// An invalid setting does not hide a problem of another one, and is reported once.
func TestNamedAndOthersAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := call(t, []string{"TURNSTILE_AGENT=acp", "TURNSTILE_ACP_PERMISSIONS=yes", "TURNSTILE_WORKSPACE_DIR=" + file}, "--dev").want(t, exitUsage)
	want := fmt.Sprintf("worker: %[1]v TURNSTILE_ACP_PERMISSIONS=\"yes\" is unknown: use allow, deny or ask\n"+
		"worker: %[1]v TURNSTILE_AGENT_COMMAND is not set: TURNSTILE_AGENT=acp needs the command to run\n"+
		"worker: %[1]v TURNSTILE_WORKSPACE_DIR=%[2]q cannot be used: %[2]s is no directory: name a directory in which the worker may make others\n", config.ErrInvalid, file)
	if r.err != want || r.out != "" {
		t.Errorf("stdout %q\nstderr %q\nwant   %q", r.out, r.err, want)
	}
}

// A worker that knows the gateways' tokens refuses approvers whom nobody can be, in one line each.
func TestApproversNeedTokens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	tokens := write("tokens.json", `[{"name": "acme-desk", "sha256": "`+strings.Repeat("0a", 32)+`", "sessions": ["*"], "may": ["read"]}]`)
	write("tools.json", `[{"name": "refund", "description": "d", "argv": ["true"], "approvers": ["acme-dsk/*"]}]`)
	const entry = "worker: setting TURNSTILE_AGENTS_FILE: agent \"acme\": "
	const gone = "nobody is the approver acme-dsk/*: TURNSTILE_GATEWAY_TOKENS_FILE has no token acme-dsk: add it there, or name another approver\n"
	for settings, want := range map[string]string{
		`"agent": "echo", "approvers": ["sender", "anyone", "acme-desk/*", "acme-desk", "acme-*/eve"]`: "",
		`"agent": "echo", "approvers": ["acme-desk/*", "acme-dsk/*"]`:                                  entry + "approvers: " + gone,
		`"agent": "model", "model": "m", "tools_file": "` + dir + `/tools.json"`:                       entry + "tools_file: tool refund: " + gone,
		`"agent": "echo", "approvers": "acme desk"`:                                                    entry + "approvers=\"acme desk\" must be a list of approvers: write sender, anyone, or senders such as web/alice,ops/*\n",
	} {
		agents := write("agents.json", `{"acme": {"sessions": ["acme:*"], `+settings+`}}`)
		environ := []string{"TURNSTILE_AGENTS_FILE=" + agents, "TURNSTILE_GATEWAY_TOKENS_FILE=" + tokens}
		code := exitUsage
		if want == "" {
			code = exitOK
		}
		expect.Equal(t, settings, call(t, environ, "agents", "check").want(t, code).err, want)
		if want != "" {
			expect.Equal(t, "a start with "+settings, call(t, environ).want(t, exitUsage).err, want)
		}
	}
	write("tokens.json", `[{"name": "acme-desk"}]`)
	write("agents.json", `{"acme": {"sessions": ["acme:*"], "agent": "echo"}}`)
	r := call(t, []string{"TURNSTILE_AGENTS_FILE=" + dir + "/agents.json", "TURNSTILE_GATEWAY_TOKENS_FILE=" + tokens}).want(t, exitUsage)
	if !strings.HasPrefix(r.err, "worker: setting TURNSTILE_GATEWAY_TOKENS_FILE: ") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("a wrong file of tokens: %q", r.err)
	}
}
