package approval_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/modelserver"
	"turnstile/test/program"
)

// A question is asked before a deploy, a restart of Redis and a kill -9 of every worker, and approved after them, 25
// hours later by Redis' clock, which is the only one that decides. The turn goes on at that very call: no response is
// asked for again, and the tool runs once. If the agent has not waited for so long, the tool does not run.
func TestApprovedTomorrow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ timeout, effects string }{
		"in time":  {"48h", `{"n":1}`},
		"too late": {"24h", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			approveTomorrow(t, c.timeout, c.effects)
		})
	}
}

// approveTomorrow approves, if the question is open, a day after it was asked.
func approveTomorrow(t *testing.T, timeout, effects string) {
	t.Helper()
	const later = 25 * time.Hour
	server := acl.Server(t)
	clock := server.WithClock()
	asked := server.Client().Time(t.Context()).Val()
	paid := filepath.Join(t.TempDir(), "paid")
	expect.OK(t, os.WriteFile(paid, nil, 0o600))
	tools, err := json.Marshal([]map[string]any{{"name": "pay", "argv": []string{"sh", "-c", `cat >>"$0"; echo '"paid"'`, paid}, "ask": true}})
	expect.OK(t, err)
	file := filepath.Join(t.TempDir(), "tools.json")
	expect.OK(t, os.WriteFile(file, tools, 0o600))
	model := modelserver.New(t, modelserver.Stream(modelserver.Text("I pay."), modelserver.Call("c1", "pay", `{"n":1}`)), modelserver.Reply("That is all."))
	binary := program.Build(t, "turnstile/cmd/worker")
	start := func(after string) *program.Process {
		return program.Start(t, program.Command(t, binary, []string{
			"REDIS_URL=" + acl.URL(t, server.URL(), acl.Worker), "TURNSTILE_AGENT=model", "TURNSTILE_MODEL=m", "TURNSTILE_MODEL_KEY=k", "TURNSTILE_MODEL_URL=" + model.URL(),
			"TURNSTILE_TOOLS_FILE=" + file, "TURNSTILE_PARK_AFTER=" + after, "TURNSTILE_ASK_TIMEOUT=" + timeout, "TURNSTILE_CONCURRENCY=1",
		}))
	}
	first := start("1h")
	chat := actors.NewClient(acl.Open(t, server, acl.Sender)).Session("s")
	m, err := chat.Send(t.Context(), turnstile.Message{ID: "m", Text: "pay"})
	expect.OK(t, err)
	for e, err := range chat.Events(t.Context(), turnstile.EventsSince(m.EventsSince)) {
		if expect.OK(t, err); e.Type == session.EventQuestionAsked {
			break
		}
	}
	first.Signal(syscall.SIGTERM) // the deploy
	expect.Equal(t, "exit code of the deploy's worker", first.ExitCode(), 0)
	info, err := chat.Info(t.Context())
	expect.OK(t, err)
	if info.Phase != session.PhaseParked || info.Question == nil || info.Question.Name != "pay" {
		t.Fatalf("the session waits: %+v", info)
	}

	start("1ms").Kill()
	server.Stop()
	expect.OK(t, clock.Move(later))
	server.Start()
	now, err := server.Client().Time(t.Context()).Result()
	expect.OK(t, err)
	if passed := now.Sub(asked); passed < later {
		t.Fatalf("only %s have passed for Redis", passed)
	}
	chat = actors.NewClient(server.Client()).Session("s") // another device
	waiting, err := chat.Info(t.Context())
	expect.OK(t, err)
	expect.Equal(t, "phase a day later", waiting.Phase, session.PhaseParked)
	last := start("1ms")
	approve := func() (session.Question, error) {
		return chat.Decide(t.Context(), info.Question.ID(), session.Allow)
	}
	if effects != "" {
		question, err := approve()
		expect.OK(t, err)
		expect.Equal(t, "the question", question.Name, "pay")
	}
	o, err := chat.Wait(t.Context(), "m")
	expect.OK(t, err)
	expect.Equal(t, "the reply", fmt.Sprint(o.Status, " ", strings.TrimSpace(o.Reply)), "done That is all.")
	done, err := os.ReadFile(paid)
	expect.OK(t, err)
	expect.Equal(t, "effects", string(done), effects)
	expect.Equal(t, "requests to the model", len(model.Requests()), 2)
	if _, err := approve(); !errors.Is(err, session.ErrNoQuestion) {
		t.Errorf("the question is decided after the end: %v", err)
	}
	last.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code", last.ExitCode(), 0)
}
