package approval_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// A question is asked before a deploy, a restart of Redis and a kill -9 of every worker, and approved after them.
// The turn goes on at that very call: no response is asked for again, and the tool runs once.
func TestApprovedTomorrow(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--appendonly", "yes", "--appendfsync", "always")
	paid := filepath.Join(t.TempDir(), "paid")
	tools, err := json.Marshal([]map[string]any{{"name": "pay", "argv": []string{"sh", "-c", `cat >>"$0"; echo '"paid"'`, paid}, "ask": true}})
	expect.OK(t, err)
	file := filepath.Join(t.TempDir(), "tools.json")
	expect.OK(t, os.WriteFile(file, tools, 0o600))
	model := modelserver.New(t, modelserver.Stream(modelserver.Text("I pay."), modelserver.Call("c1", "pay", `{"n":1}`)), modelserver.Reply("Paid."))
	binary := program.Build(t, "turnstile/cmd/worker")
	start := func(after string) *program.Process {
		return program.Start(t, program.Command(t, binary, []string{
			"REDIS_URL=" + server.URL(), "TURNSTILE_AGENT=openai", "TURNSTILE_MODEL=m", "TURNSTILE_OPENAI_API_KEY=k", "TURNSTILE_OPENAI_BASE_URL=" + model.URL(),
			"TURNSTILE_TOOLS_FILE=" + file, "TURNSTILE_PARK_AFTER=" + after, "TURNSTILE_ASK_TIMEOUT=48h", "TURNSTILE_CONCURRENCY=1",
		}))
	}
	first := start("1h")
	chat := actors.NewClient(server.Client()).Session("s")
	m, err := chat.Send(t.Context(), turnstile.Message{ID: "m", Text: "pay"})
	expect.OK(t, err)
	await := func(what string, fits func(e session.Event) bool) {
		t.Helper()
		for e, err := range chat.Events(t.Context(), turnstile.EventsSince(m.EventsSince)) {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if fits(e) {
				return
			}
		}
	}
	await("the question", func(e session.Event) bool { return e.Type == session.EventQuestionAsked })
	first.Signal(syscall.SIGTERM) // the deploy
	expect.Equal(t, "exit code of the deploy's worker", first.ExitCode(), 0)
	info, err := chat.Info(t.Context())
	expect.OK(t, err)
	if info.Phase != session.PhaseParked || info.Question == nil || info.Question.Name != "pay" {
		t.Fatalf("the session waits: %+v", info)
	}

	start("1ms").Kill()
	server.Stop()
	server.Start()
	last := start("1ms")
	chat = actors.NewClient(server.Client()).Session("s") // another device
	question, err := chat.Decide(t.Context(), info.Question.ID(), session.Allow)
	expect.OK(t, err)
	expect.Equal(t, "the question", question.Name, "pay")
	o, err := chat.Wait(t.Context(), "m")
	expect.OK(t, err)
	expect.Equal(t, "the reply", fmt.Sprint(o.Status, " ", strings.TrimSpace(o.Reply)), "done Paid.")
	effects, err := os.ReadFile(paid)
	expect.OK(t, err)
	expect.Equal(t, "effects", string(effects), `{"n":1}`)
	expect.Equal(t, "requests to the model", len(model.Requests()), 2)
	last.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code", last.ExitCode(), 0)
}
