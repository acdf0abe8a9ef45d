package examples

import (
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// The sender of docs/wire.md, which knows nothing of agents, reaches the agent of each session. It runs as
// the page has it, and with another session.
func TestWireExample(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	python := "python3"
	if osexec.Command(python, "-c", "import redis").Run() != nil {
		python = "/usr/bin/python3" // Debian's, for which python3-redis is
		if osexec.Command(python, "-c", "import redis").Run() != nil {
			expect.Lacks(t, "redis-py (python3-redis)")
		}
	}
	text, err := os.ReadFile("../../docs/wire.md")
	expect.OK(t, err)
	example := block(t, string(text), "python")
	dir, server := t.TempDir(), redistest.StartServer(t)
	agents := filepath.Join(dir, "agents.json")
	expect.OK(t, os.WriteFile(agents, []byte(`{
		"a": {"sessions": ["s1"], "agent": "exec", "agent_command": "sh -c 'echo a has got: $(cat)'"},
		"b": {"sessions": ["b:*"], "agent": "exec", "agent_command": "sh -c 'echo b has got: $(cat)'"}}`), 0o600))
	program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), []string{
		"REDIS_URL=" + server.URL(), "TURNSTILE_AGENTS_FILE=" + agents, "TURNSTILE_HTTP_ADDR=",
	}))
	for key, agent := range map[string]string{"s1": "a", "b:1": "b"} {
		file := filepath.Join(dir, agent+".py")
		expect.OK(t, os.WriteFile(file, []byte(strings.ReplaceAll(example, "s1", key)), 0o600))
		sender := program.Start(t, program.Command(t, python, nil, file, server.URL()))
		expect.Equal(t, "exit code", sender.ExitCode(), 0)
		expect.Equal(t, key, sender.Output.String(), "done "+agent+" has got: hello from Python\n")
	}
}
