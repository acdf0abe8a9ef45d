package examples

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"turnstile"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// running is the Go example as a separate process.
type running struct {
	conversation
	*program.Process
}

// path builds the example.
func path(t *testing.T) string {
	t.Helper()
	return program.Build(t, "turnstile/examples/custom-agent")
}

func startProgram(t *testing.T, environ ...string) *running {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	client := actors.NewClient(redistest.New(t))
	p := program.Start(t, program.Command(t, path(t), append([]string{"REDIS_URL=" + redistest.URL(t)}, environ...)))
	return &running{conversation{t, ctx, client, nil, t.Name()}, p}
}

// say sends a message.
func (p *running) say(text string, mode session.Mode) string {
	p.Helper()
	receipt, err := p.client.Session(p.key).Send(p.ctx, turnstile.Message{Text: text, Mode: mode})
	if err != nil {
		p.Fatal(err)
	}
	return receipt.ID
}

// long is a message with a reply that takes some seconds.
func long() string { return strings.TrimSuffix(strings.Repeat("add sugar\n", 40), "\n") }

// follow waits for a message's end, and calls f once its reply has begun.
func (p *running) follow(id string, f func()) session.Outcome {
	p.Helper()
	begun := false
	end, err := actors.Follow(p.ctx, p.client.Session(p.key), id, func(e session.Event) {
		if !begun && e.Type == "text" {
			begun = true
			f()
		}
	})
	if err != nil {
		p.Fatal(err)
	}
	if !begun {
		p.Error("there was no text before the end")
	}
	return end
}

func TestCustomAgent(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	p.wants("list", `Nothing to do. Say "add milk", "done 1" or "list", one a line.`)
	p.wants("add milk\nadd fresh bread", "1. [ ] milk\n2. [ ] fresh bread")
	p.wants("done 1", "1. [x] milk\n2. [ ] fresh bread")
	if _, err := p.client.Command(p.ctx, p.key, "/undo", ""); err != nil {
		t.Error(err)
	}
	p.wants("list", "1. [ ] milk\n2. [ ] fresh bread")

	// A message that arrives while the turn runs joins it.
	steer := ""
	end := p.follow(p.say(long(), ""), func() { steer = p.say("done 2", session.ModeSteer) })
	if !strings.HasPrefix(end.Reply, "1. [ ] milk\n2. [x] fresh bread\n3. [ ] sugar") || !strings.HasSuffix(end.Reply, "42. [ ] sugar") {
		t.Errorf("reply %q", end.Reply)
	}
	if steered, err := p.client.Session(p.key).Wait(p.ctx, steer); err != nil || steered.Turn != end.Turn {
		t.Errorf("the steer's turn is %q, not %q: %v", steered.Turn, end.Turn, err)
	}

	// The list is as it was before the stopped turn.
	if end := p.follow(p.say(long(), ""), func() {
		if _, err := p.client.Command(p.ctx, p.key, "/stop", ""); err != nil {
			t.Error(err)
		}
	}); end.Status != session.StatusStopped {
		t.Errorf("after /stop it ended as %s", end.Status)
	}
	if end := p.says("list", func(session.Event) {}); !strings.HasSuffix(end.Reply, "\n42. [ ] sugar") {
		t.Errorf("%+v", end)
	}
}

// At SIGTERM the running turn is finished, and then the program exits with code 0.
func TestCustomAgentDrains(t *testing.T) {
	t.Parallel()
	p := startProgram(t)
	end := p.follow(p.say(long(), ""), func() {
		p.Signal(syscall.SIGTERM)
	})
	if end.Status != session.StatusDone || !strings.HasSuffix(end.Reply, "40. [ ] sugar") {
		t.Errorf("%+v", end)
	}
	if code := p.ExitCode(); code != 0 || !strings.Contains(p.Output.String(), "drained") {
		t.Errorf("exit code %d\n%s", code, p.Output)
	}
}

// An invalid setting is reported with the exit codes of cmd/worker.
func TestCustomAgentThatCannotStart(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]struct {
		code int
		says string
	}{
		"REDIS_URL=redis://127.0.0.1:1":  {1, "is REDIS_URL right?"},
		"REDIS_URL=http://x":             {2, "setting REDIS_URL cannot be used"},
		"TURNSTILE_CONCURRENCY=a lot":    {2, "TURNSTILE_CONCURRENCY"},
		"TURNSTILE_HTTP_ADDR=no address": {2, "TURNSTILE_HTTP_ADDR"},
	} {
		cmd := program.Command(t, path(t), []string{setting})
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != want.code || !strings.Contains(string(out), want.says) {
			t.Errorf("%s: %v\n%s\nwant exit code %d and %q", setting, err, out, want.code, want.says)
		}
	}
}

// A program that calls program.Run has the worker's settings, pages and signals.
func TestCustomAgentIsAWorker(t *testing.T) {
	t.Parallel()
	p := startProgram(t, "TURNSTILE_HTTP_ADDR=127.0.0.1:0", "TURNSTILE_LOG_FORMAT=json", "TURNSTILE_DRAIN_TIMEOUT=0")
	var addr string
	expect.Soon(t, "HTTP to be served", func() bool {
		for line := range strings.Lines(p.Output.String()) {
			var said struct{ Msg, Addr string }
			if err := json.Unmarshal([]byte(line), &said); err != nil && strings.HasSuffix(line, "\n") {
				t.Fatalf("%q is not JSON: %v", line, err)
			}
			if said.Msg == "serving HTTP" {
				addr = said.Addr
			}
		}
		return addr != ""
	})
	for page, want := range map[string]string{"/healthz": "ok", "/readyz": "ok", "/metrics": "turnstile_build_info"} {
		r, err := http.Get("http://" + addr + page)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v\n%.200s", page, r.Status, err, body)
		}
	}
	// At SIGHUP the running turn is requeued, and the exit code asks the supervisor for a restart.
	id := p.say(long(), "")
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	hangUp := sync.OnceFunc(func() { p.Signal(syscall.SIGHUP) })                   // a second one would end it at once
	_, _ = actors.Follow(ctx, p.client.Session(p.key), id, func(e session.Event) { // ends with ctx
		switch e.Type {
		case session.EventText:
			hangUp()
		case session.EventTurnRequeued:
			stop()
		}
	})
	expect.Equal(t, "exit code", p.ExitCode(), 75)
}
