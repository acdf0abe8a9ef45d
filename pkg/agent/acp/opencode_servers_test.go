package acp

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/test/expect"
	"turnstile/test/mcpserver"
	"turnstile/test/modelserver"
	"turnstile/test/redistest"
)

// OpenCode calls tools of TURNSTILE_MCP_FILE. Nothing of a server outlives a worker that is killed while a tool runs.
func TestOpencodeUsesServers(t *testing.T) {
	t.Parallel()
	remote, called := mcpserver.NewHTTP(t, "child", "hang"), filepath.Join(t.TempDir(), `"called" ü`)
	model := answering(t, func(r modelserver.Request, said string) modelserver.Response {
		switch {
		case strings.Contains(said, "No new message follows"):
			return modelserver.Reply("I went on.")
		case r.Messages[len(r.Messages)-1].Role == "tool":
			return modelserver.Reply("It said " + r.Last())
		}
		name, text, _ := strings.Cut(said, " ")
		input, _ := json.Marshal(mcpserver.Input{Text: text})
		return modelserver.Stream(modelserver.Call("c1", "s_"+name, string(input)))
	})
	a := opencode(t, model, agent.Isolation{})
	words, file := mcpserver.Words(t), filepath.Join(t.TempDir(), "mcp.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"s": map[string]any{"command": words[0], "args": words[1:]},
		"h": map[string]any{"url": remote.URL, "headers": map[string]any{"X-Token": "${ACP_TEST_ONE}"}},
	}})
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(file, text, 0o600))
	send, reply, begin := openCodeWorker(t, redistest.New(t), a, "TURNSTILE_MCP_FILE="+file, "ACP_TEST_ONE=token-of-the-test")
	first := begin()
	send("m1", "child now")
	pids, _ := strings.CutPrefix(reply("m1"), "It said ")
	if len(strings.Fields(pids)) != 2 {
		t.Fatalf("it replied %q", pids)
	}
	if !slices.ContainsFunc(remote.Headers(), func(h http.Header) bool { return h.Get("X-Token") == "token-of-the-test" }) {
		t.Errorf("the remote server gets %v", remote.Headers())
	}
	send("m2", "hang "+called)
	expect.Soon(t, "the tool is called", func() bool {
		text, _ := os.ReadFile(called)
		return strings.HasSuffix(string(text), "\n")
	})
	pid, err := os.ReadFile(called)
	expect.OK(t, err)
	expect.Equal(t, "the warm server", strings.TrimSpace(string(pid)), strings.Fields(pids)[1])
	first.Signal(syscall.SIGKILL)
	begin()
	expect.Equal(t, "the reply", reply("m2"), "I went on.")
	for _, pid := range strings.Fields(pids) {
		n, err := strconv.Atoi(pid)
		expect.OK(t, err)
		if err := syscall.Kill(n, 0); err != syscall.ESRCH {
			t.Errorf("process %d of %s is left: %v", n, pids, err)
		}
	}
}
