package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"turnstile/test/expect"
)

// write writes a file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agents.json")
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// An agent of the file has its own settings and no other agent's.
func TestAgentsFile(t *testing.T) {
	t.Parallel()
	secret := write(t, "from a file\n")
	path := write(t, `{
		"support": {"sessions": ["acme:*"], "agent": "model", "model": "m", "model_url": "http://x/v1", "model_key_env": "ACME", "ask_timeout": 0},
		"usual": {"sessions": ["usual:*"], "agent": "model", "model": "u", "model_url": "https://API.openai.com/v1/"},
		"local": {"sessions": ["local:*"], "agent": "model", "model": "l", "model_url": "http://x/v1"},
		"coder": {"sessions": ["acme:dev:*", "ops:1"], "agent": "acp", "agent_command": "opencode acp", "workspace_dir": "/w", "acp_files": true, "env": {"MODEL_KEY": {"from": "OPS"}}, "workspace_group": 2000, "isolation": "confined", "confined_ports": [8443, "4096/listen"], "confined_read": ["/opt/node", "/srv"], "approvers": ["sender", "ops/*"]},
		"other": {"sessions": ["*"], "agent": "model", "model": "n", "model_key_file": "`+secret+`"}}`)
	w, err := LoadWorker(with(map[string]string{
		"TURNSTILE_AGENTS_FILE": path, "TURNSTILE_AGENT": "exec", "TURNSTILE_AGENT_COMMAND": "of the environment",
		"OPENAI_API_KEY": "usual", "ACME": "acme's", "OPS": "ops'",
	}), Options{})
	expect.OK(t, err)
	defaults := AgentSettings{
		AgentFormat: FormatText, AgentTimeout: 10 * time.Minute, AskTimeout: 5 * time.Minute,
		Provider: ProviderOpenAI, ModelURL: "https://api.openai.com/v1", ModelKey: "usual", ACPPermissions: PermissionsAsk,
		Isolation: "none", ConfinedPorts: Ports{Connect: []int{443}},
	}
	usual, coder, local, other, support := defaults, defaults, defaults, defaults, defaults
	usual.Agent, usual.Model, usual.ModelURL = AgentModel, "u", "https://API.openai.com/v1/"      // the key's server, spelled otherwise
	local.Agent, local.Model, local.ModelURL, local.ModelKey = AgentModel, "l", "http://x/v1", "" // no other server's key
	coder.Agent, coder.Command, coder.WorkspaceDir, coder.ACPFiles, coder.WorkspaceGroup = AgentACP, Command{"opencode", "acp"}, "/w", true, Group{new(2000)}
	coder.Isolation, coder.ConfinedPorts, coder.ConfinedRead = "confined", Ports{[]int{8443, 4096}, []int{4096}}, Paths{"/opt/node", "/srv"}
	coder.Approvers = Approvers{"sender", "ops/*"}
	other.Agent, other.Model, other.ModelKey = AgentModel, "n", "from a file"
	support.Agent, support.Model, support.ModelURL, support.ModelKey, support.AskTimeout = AgentModel, "m", "http://x/v1", "acme's", 0
	want := []NamedAgent{
		{Name: "coder", Sessions: []string{"acme:dev:*", "ops:1"}, AgentSettings: coder, Set: []string{"MODEL_KEY=ops'"}, Own: []string{"OPS"}},
		{Name: "local", Sessions: []string{"local:*"}, AgentSettings: local},
		{Name: "other", Sessions: []string{"*"}, AgentSettings: other},
		{Name: "support", Sessions: []string{"acme:*"}, AgentSettings: support, Own: []string{"ACME"}},
		{Name: "usual", Sessions: []string{"usual:*"}, AgentSettings: usual},
	}
	expect.List(t, "variables that no program gets", w.AgentsOwn, "OPS", "ACME")
	if !reflect.DeepEqual(w.Agents, want) {
		t.Errorf("got  %+v\nwant %+v", w.Agents, want)
	}
}

// With the file, the environment need not have an agent.
func TestAgentsFileAlone(t *testing.T) {
	t.Parallel()
	path := write(t, `{"acme": {"sessions": ["acme:*"], "agent": "echo"}}`)
	_, err := LoadWorker([]string{"TURNSTILE_AGENTS_FILE=" + path}, Options{})
	expect.OK(t, err)
}

func TestAgentsFileMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`[]`: {`PATH is no JSON object with agents by name, such as {"support": {"sessions": ["acme:*"], "agent": "claude"}}`},
		`{}`: {`PATH is no JSON object with agents by name, such as {"support": {"sessions": ["acme:*"], "agent": "claude"}}`},
		`{"a": {"sessions": ["x:*"], "agent": "model", "model": "m", "openai_base_url": "u", "openai_api_key_env": "K", "openai_api_key_file": "f", "openai_file": "f"}}`: {
			`agent "a": "openai_api_key_env" is unknown: it is called model_key_env now`, `agent "a": "openai_api_key_file" is unknown: it is called model_key_file now`,
			`agent "a": "openai_base_url" is unknown: it is called model_url now`, `agent "a": "openai_file" is unknown: it is called model_file now`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "openai", "model": "m"}}`: {`agent "a": agent="openai" is called model now`},
		`{"a": {"sessions": ["x:*"], "agent": "model", "modl": "m"}}`: {
			`agent "a": "modl" is unknown: did you mean model?`,
		},
		"{\n  \"a\": {\"sessions\": [\"x:*\"], \"agent\": \"echo\",}\n}": {
			`PATH: line 2: invalid JSON: invalid character '}' looking for beginning of object key string`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "echo"}, "a": {"sessions": ["y:*"], "agent": "echo"}}`: {`PATH: invalid JSON: "a" occurs twice`},
		`{"a": {"sessions": ["x:*"], "agent": "echo", "agent": "claude"}}`:                           {`PATH: invalid JSON: "a.agent" occurs twice`},
		`{"a": {"sesions": ["x:*"], "agent": "echo"}}`:                                               {`agent "a": "sesions" is unknown: did you mean sessions?`},
		`{"a": {"agent": "echo"}}`:     {`agent "a": sessions is missing: list patterns such as "acme:*"`},
		`{"a": {"sessions": ["x:*"]}}`: {`agent "a": agent="" is not set: use one of echo, exec, acp, model, claude, codex and gemini`},
		`{"a": {"sessions": ["x:*"], "agent": "echo", "approvers": ["a/b", ["c"]]}}`: {`agent "a": approvers: write it as one text, number, true or false`},
		`{"a": {"sessions": ["x:*"], "agent": "exec"}}`:                              {`agent "a": agent_command is not set: agent=exec needs the command to run`},
		`{"a": {"sessions": ["x:*"], "agent": "clade"}}`:                             {`agent "a": agent="clade" is unknown: use echo, exec, acp, model, claude, codex or gemini`},
		`{"a": {"sessions": "x:*", "agent": "echo"}}`: {
			`agent "a": sessions is no list of patterns: write it as ["acme:*"]`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "echo"}, "b": {"sessions": ["x:*"], "agent": "echo"}}`: {
			`agent "b": sessions: "x:*" belongs to agent "a": give it to one of them`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "model", "model": "m", "model_key_env": "GONE"}}`: {
			`agent "a": model_key_env names the variable "GONE", which is not set`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "model", "model": "m", "model_key_env": "sk-secret"}}`: { // the key itself
			`agent "a": model_key_env names the variable "...", which is not set`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "claude", "env": {"A": {"from": "GONE"}}}}`: {`agent "a": env: A: from names the variable GONE, which is not set`},
		`{"a": {"sessions": ["x:*"], "agent": "claude", "env": {"A": "HOME"}}}`:           {`agent "a": env: write it as {"NAME": {"from": "VARIABLE"}}`},
		`{"a": {"sessions": ["x:*"], "agent": "claude", "env": {"REDIS_URL": {"from": "KEY"}}}}`: {
			`agent "a": env: "REDIS_URL" is no name for a variable of an agent`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "claude", "env": {"A": {"from": "TURNSTILE_AGENTS_FILE"}}}}`: {
			`agent "a": env: A: from is no name of a variable that agents may have`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "claude", "env": {"A": {"from": "sk-secret"}}}}`: { // the key itself
			`agent "a": env: A: from is no name of a variable that agents may have`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "claude", "env": {"A": {"from": "KEY"}}}, "b": {"sessions": ["y:*"], "agent": "codex", "agent_env": ["KEY"]}}`: {
			`agent "b": agent_env names KEY, which is a key of an agent: write "env": {"NAME": {"from": "KEY"}}`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "model", "model": ["m"]}}`: {
			`agent "a": model: write it as one text, number, true or false`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "model", "model": "m", "model_key_file": "/gone"}}`: {
			`agent "a": model_key_file cannot be used: open /gone: no such file or directory: correct the path, or let the program read it`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "exec", "agent_command": "x", "workspace_dir": "/w", "isolation": "wrapper"}}`: {
			`agent "a": wrapper is not set: isolation=wrapper needs the command that starts the agent's programs`,
		},
		`{"a": {"sessions": ["x:*"], "agent": "echo", "agent_timeout": "30d"}}`: {
			`agent "a": agent_timeout=720h0m0s is too long: TURNSTILE_TRANSCRIPT_TTL and TURNSTILE_SESSION_TTL must be longer`,
		},
	} {
		path := write(t, text)
		_, err := LoadWorker(with(map[string]string{"TURNSTILE_AGENTS_FILE": path, "KEY": "k"}), Options{})
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		var got []string
		for _, line := range strings.Split(err.Error(), "\n") {
			line = strings.ReplaceAll(line, path, "PATH")
			got = append(got, strings.TrimPrefix(line, "setting TURNSTILE_AGENTS_FILE: "))
		}
		expect.List(t, text, got, want...)
	}
	_, err := LoadWorker(with(map[string]string{"TURNSTILE_AGENTS_FILE": "/gone"}), Options{})
	expect.Equal(t, "error", err.Error(), "setting TURNSTILE_AGENTS_FILE: open /gone: no such file or directory: correct the path, or let the program read it")
}
