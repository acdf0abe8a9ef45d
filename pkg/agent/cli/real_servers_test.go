package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"turnstile"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/mcpserver"
	"turnstile/test/redistest"
)

// The real programs call tools of TURNSTILE_MCP_FILE. Nothing of a server outlives the turn, or a worker that is killed
// while a tool runs.
func TestRealProgramsUseServers(t *testing.T) {
	t.Parallel()
	for _, r := range reals {
		t.Run(string(r.kind), func(t *testing.T) {
			t.Parallel()
			if r.kind == Claude {
				r.options = []string{"--allowedTools", "mcp__s"}
			}
			g := r.start(t)
			dir := t.TempDir()
			if r.kind == Gemini {
				dir = rootsDir(t)
			}
			words, remote, file := mcpserver.Words(t), mcpserver.NewHTTP(t, "child", "hang"), filepath.Join(dir, "mcp.json")
			expect.OK(t, os.WriteFile(file, []byte(encode(object{"mcpServers": object{
				"s": object{"command": words[0], "args": words[1:], "trust": true},
				"h": object{"type": "http", "url": remote.URL, "headers": object{"X-Token": "${SERVERS_TOKEN}"}},
			}})), 0o600))
			settings := []string{"TURNSTILE_MCP_FILE=" + file, "SERVERS_TOKEN=token-of-the-test"}
			chat := actors.NewClient(redistest.New(t)).Session("web:1")
			ctx, cancel := context.WithTimeout(t.Context(), 2*expect.Patience)
			defer cancel()
			send := func(id, text string) {
				_, err := chat.Send(ctx, turnstile.Message{ID: id, Text: text})
				expect.OK(t, err)
			}
			end := func(id, reply string) (uses []*session.ToolUse) {
				outcome, err := chat.Wait(ctx, id)
				expect.OK(t, err)
				expect.Equal(t, "the reply", fmt.Sprint(outcome.Status, " ", outcome.Reply), "done "+reply)
				entries, err := actors.Transcript(ctx, chat, outcome.TranscriptID)
				expect.OK(t, err)
				for _, e := range entries {
					if e.Tool != nil {
						uses = append(uses, e.Tool)
					}
				}
				return uses
			}
			gone := func(pids string) {
				for _, pid := range strings.Fields(pids) {
					n, err := strconv.Atoi(pid)
					expect.OK(t, err)
					if err := syscall.Kill(n, 0); err != syscall.ESRCH {
						t.Errorf("process %d is left: %v", n, err)
					}
				}
			}
			first := g.worker(t, settings...)
			send("m1", "call child now")
			uses := end("m1", "The tool has spoken.")
			var input mcpserver.Input
			if len(uses) != 1 || json.Unmarshal(uses[0].Input, &input) != nil || input.Text != "now" || uses[0].Error != "" {
				t.Fatalf("its tools: %s", encode(uses))
			}
			pids := twoNumbers.FindString(string(uses[0].Output))
			calls := g.seen()
			if last := calls[len(calls)-1]; pids == "" || !last.tool || !strings.Contains(last.body, pids) {
				t.Errorf("the tool returned %s, the model reads %s", uses[0].Output, last.body)
			}

			gone(pids)
			if !slices.ContainsFunc(remote.Headers(), func(h http.Header) bool { return h.Get("X-Token") == "token-of-the-test" }) {
				t.Errorf("the remote server gets %v", remote.Headers())
			}

			pid, called := "", filepath.Join(t.TempDir(), `"called" ü`)
			send("m2", "call hang "+called)
			expect.Soon(t, "the tool is called", func() bool {
				text, _ := os.ReadFile(called)
				pid = string(text)
				return strings.HasSuffix(pid, "\n")
			})
			first.Signal(syscall.SIGKILL)
			g.worker(t, settings...)
			end("m2", "I went on.")
			gone(pid)
		})
	}
}

// rootsDir is a directory from which Gemini CLI takes its administrator's files.
func rootsDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/lib", "turnstile-test-") //nolint:usetesting // /tmp is everybody's
	if err != nil {
		t.Skipf("NOT TESTED: Gemini CLI takes servers only from root's directories: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	expect.Equal(t, "what is not root's", notRoots(dir), "")
	return dir
}
