package acp

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
	processes "turnstile/test/program"
	"turnstile/test/redistest"
)

// A worker dies with OpenCode, at each point of a turn. The next worker's OpenCode has the user's words once, has the
// results of the tools that have ended, learns which tools may have happened, and replies.
func TestOpencodeGoesOn(t *testing.T) {
	t.Parallel()
	const words = "please do it"
	for name, point := range map[string]struct {
		reply   func(silent modelserver.Step) modelserver.Response
		tool    string // its command
		journal string // Turnstile has this
		record  string // OpenCode has this in its session; by default the words
		knows   string // the model must read this
	}{
		"before the first reply": {reply: func(silent modelserver.Step) modelserver.Response {
			return modelserver.Stream(silent, modelserver.Hang())
		}},
		"in a reply": {reply: func(silent modelserver.Step) modelserver.Response {
			return modelserver.Stream(modelserver.Text("Half ", "of "), silent, modelserver.Hang())
		}},
		"in a tool":             {tool: "echo ran >> effects; sleep 1000", knows: "sleep 1000"},
		"after a tool":          {tool: "echo from-$((6*7))", journal: "from-42", knows: "from-42"},
		"after a tool, written": {tool: "echo from-$((6*7))", record: "from-42", knows: "from-42"},
		"after the reply": {reply: func(silent modelserver.Step) modelserver.Response {
			return modelserver.Stream(modelserver.Text("These ", "were all."), modelserver.Finish("stop"), silent, modelserver.Hang())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stuck := make(chan struct{})
			silent := modelserver.Do(sync.OnceFunc(func() { close(stuck) }))
			model := answering(t, func(r modelserver.Request, said string) modelserver.Response {
				switch {
				case strings.Contains(said, "No new message follows"):
					return modelserver.Reply("I went on.")
				case !strings.Contains(said, words):
					return modelserver.Reply("Heard " + said)
				case r.Messages[len(r.Messages)-1].Role == "tool":
					return modelserver.Stream(silent, modelserver.Hang())
				case point.tool != "":
					return modelserver.Stream(modelserver.Text("I use it."), modelserver.Call("c1", "bash", fmt.Sprintf(`{"command":%q,"description":"does it"}`, point.tool)))
				}
				return point.reply(silent)
			})
			a := opencode(t, model, agent.Isolation{})
			rdb := redistest.New(t)
			send, reply, begin := openCodeWorker(t, rdb, a)
			wrote := func(text string) bool {
				files, _ := filepath.Glob(filepath.Dir(a.config.Workspace) + "/.local/share/opencode/*.db*")
				return slices.ContainsFunc(files, func(file string) bool {
					data, _ := os.ReadFile(file)
					return strings.Contains(string(data), text)
				})
			}
			first := begin()
			send("m1", "first")
			expect.Equal(t, "the first reply", reply("m1"), "Heard first")
			send("m2", words)
			expect.Soon(t, "the turn comes to its point", func() bool {
				effects, _ := filepath.Glob(a.config.Workspace + "/*/effects")
				select {
				case <-stuck:
					return true
				default:
					return len(effects) > 0
				}
			})
			expect.Soon(t, "OpenCode has the words", func() bool { return wrote(cmp.Or(point.record, words)) })
			expect.Soon(t, "the journal has the tool", func() bool {
				return point.journal == "" || strings.Contains(fmt.Sprint(rdb.HGetAll(t.Context(), rediskey.For("web:1").Journal()).Val()), point.journal)
			})
			first.Signal(syscall.SIGKILL)
			begin()
			expect.Equal(t, "the reply", reply("m2"), "I went on.")
			var last modelserver.Request
			for _, r := range model.Requests() {
				if len(r.Tools) > 0 {
					last = r
				}
			}
			said := ""
			for _, m := range last.Messages[1:] {
				said += m.Role + ": " + m.Text() + "\n"
			}
			if strings.Count(said, words) != 1 || strings.Count(said, "No new message follows") != 1 || !strings.Contains(string(last.Body), point.knows) {
				t.Errorf("the model reads\n%s\nin\n%s", said, last.Body)
			}
			t.Logf("the model reads\n%s", said)
			send("m3", "and now?")
			expect.Equal(t, "the next reply", reply("m3"), "Heard and now?")
		})
	}
}

// openCodeWorker is a worker with OpenCode, beside what a user does in a session: send a message, wait for its reply.
func openCodeWorker(t *testing.T, rdb redis.UniversalClient, a *Agent, settings ...string) (send func(id, text string), reply func(id string) string, begin func() *processes.Process) {
	t.Helper()
	chat := actors.NewClient(rdb).Session("web:1")
	ctx, cancel := context.WithTimeout(t.Context(), 2*expect.Patience)
	t.Cleanup(cancel)
	send = func(id, text string) {
		_, err := chat.Send(ctx, turnstile.Message{ID: id, Text: text})
		expect.OK(t, err)
	}
	reply = func(id string) string {
		outcome, err := chat.Wait(ctx, id)
		expect.OK(t, err)
		expect.Equal(t, "how it ended", outcome.Status, session.StatusDone)
		return outcome.Reply
	}
	begin = func() *processes.Process {
		return processes.Start(t, processes.Command(t, processes.Build(t, "turnstile/cmd/worker"), append([]string{
			"REDIS_URL=" + redistest.URL(t), "TURNSTILE_LOG_LEVEL=debug", "TURNSTILE_SENTINEL_TTL=" + expect.Lease(time.Second).String(),
			"TURNSTILE_AGENT=acp", "TURNSTILE_WORKSPACE_DIR=" + a.config.Workspace, "TURNSTILE_ACP_PERMISSIONS=allow",
			"TURNSTILE_AGENT_COMMAND='" + strings.Join(a.config.Command, "' '") + "'",
		}, settings...)))
	}
	return send, reply, begin
}
