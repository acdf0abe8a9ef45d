package examples

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"turnstile/internal/process/confine"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// clone makes a folder with what docs/customers.md takes from a clone.
func clone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	expect.OK(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	for _, name := range []string{"worker", "gateway", "enqueue"} {
		expect.OK(t, os.Symlink(program.Build(t, "turnstile/cmd/"+name), filepath.Join(dir, "bin", name)))
	}
	docs, err := filepath.Abs("../../docs")
	expect.OK(t, err)
	expect.OK(t, os.Symlink(docs, filepath.Join(dir, "docs")))
	return dir
}

// All commands of docs/customers.md, in one shell, print what the page says, in its order.
func TestCustomers(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	if err := confine.Check(); err != nil {
		expect.Lacks(t, err.Error())
	}
	text, err := os.ReadFile("../../docs/customers.md")
	expect.OK(t, err)
	page := string(text)

	own := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(own, "agents.json"), []byte(strings.Replace(block(t, page, "json"), "/var/lib/agents", own, 1)), 0o600))
	expect.OK(t, os.WriteFile(filepath.Join(own, "acme.json"), []byte(`{"system_prompt": "Be brief."}`), 0o600))
	expect.OK(t, os.WriteFile(filepath.Join(own, "acme-tools.json"), []byte(`[{"name": "refund", "description": "d", "argv": ["true"]}]`), 0o600))
	check := program.Command(t, program.Build(t, "turnstile/cmd/worker"), []string{"TURNSTILE_AGENTS_FILE=agents.json", "ACME_KEY=k"}, "agents", "check")
	check.Dir = own
	out, err := check.CombinedOutput()
	expect.Equal(t, "the real entry", string(out), "agents.json is right. Its agents: acme\n")
	expect.OK(t, err)

	var script strings.Builder
	for rest := page; ; {
		_, code, found := strings.Cut(rest, "```sh\n")
		if !found {
			break
		}
		code, rest, _ = strings.Cut(code, "```\n")
		script.WriteString(code)
	}
	commands := script.String()
	server := redistest.StartServer(t)
	_, port, _ := strings.Cut(server.Addr(), ":")
	for from, to := range map[string]string{
		"make build\n": "", "redis-server --port 6390 --save '' >redis.log &\n": "", "redis-cli -p 6390 shutdown nosave\n": "",
		"http://127.0.0.1:8081": `http://$(sed -n 's/.*"serving HTTP" addr=//p' gateway.log)`,
	} {
		expect.Equal(t, "how often the page has "+from, strings.Count(commands, from), 1)
		commands = strings.Replace(commands, from, to, 1)
	}
	commands = strings.ReplaceAll(commands, "6390", port)

	cmd := program.Command(t, "sh", []string{"TURNSTILE_GATEWAY_ADDR=127.0.0.1:0", "TMPDIR=" + t.TempDir()}, "-uc", commands)
	cmd.Dir, cmd.SysProcAttr = clone(t), &syscall.SysProcAttr{Setpgid: true}
	running := program.Start(t, cmd)
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // with its background processes
	expect.Equal(t, "exit code", running.ExitCode(), 0)
	printed := running.Output.String()
	for line := range strings.Lines(commands) {
		result, found := strings.CutPrefix(strings.TrimSpace(line), "# => ")
		if !found {
			continue
		}
		if _, printed, found = strings.Cut(printed, result); !found {
			t.Fatalf("the page's commands do not print %s, or not in the page's order", result)
		}
	}
}
