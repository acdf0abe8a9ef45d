package acp

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// startWorker starts a real worker, and returns a client for it. stop drains the worker.
func startWorker(t *testing.T, a agent.Agent, options worker.Config) (client *actors.Client, stop func()) {
	t.Helper()
	rdb, err := redisconn.Open(redistest.URL(t))
	expect.OK(t, err)
	options.RetryBackoff = 20 * time.Millisecond
	options.Logger = slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		options.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	w, err := worker.New(rdb, a, options)
	expect.OK(t, err)
	expect.OK(t, w.Start(t.Context()))
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		_ = w.Stop(expect.Ended())
		_ = rdb.Close()
	}
	t.Cleanup(stop)
	return actors.NewClient(rdb), stop
}

// say sends a message and waits for its end.
func say(t *testing.T, c *actors.Client, text string) session.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	receipt, err := c.Session(t.Name()).Send(ctx, turnstile.Message{Text: text})
	expect.OK(t, err)
	outcome, err := c.Session(t.Name()).Wait(ctx, receipt.ID)
	expect.OK(t, err)
	return outcome
}

func pidOf(t *testing.T, o session.Outcome) int {
	t.Helper()
	pid, err := strconv.Atoi(o.Reply)
	if err != nil || o.Status != session.StatusDone {
		t.Fatalf("%+v", o)
	}
	return pid
}

func TestTwoTurnsOfAWorker(t *testing.T) {
	t.Parallel()
	client, stop := startWorker(t, acting(t, "can-close"), worker.Config{})
	first, second := pidOf(t, say(t, client, "pid")), pidOf(t, say(t, client, "text ignored\nupdate {\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"a\",\"title\":\"x\",\"status\":\"completed\"}\npid"))
	if first != second {
		t.Errorf("two turns in two processes, %d and %d", first, second)
	}
	// A failure ends the process. The next turn has another.
	if o := say(t, client, "text a\nend refusal"); o.Status != session.StatusFailed || !strings.Contains(o.Detail, "refuses") {
		t.Errorf("%+v", o)
	}
	third := pidOf(t, say(t, client, "pid"))
	if third == first || alive(first) {
		t.Errorf("after a failure: process %d, and the old one is alive: %v", third, alive(first))
	}
	// The turn had produced nothing, so it is retried with another process.
	if o := say(t, client, "exit 3"); o.Status != session.StatusFailed || !strings.Contains(o.Detail, "exit status 3") {
		t.Errorf("%+v", o)
	}
	last := pidOf(t, say(t, client, "pid"))
	stop()
	if alive(last) {
		t.Error("the agent has outlived its worker")
	}
}

// A turn that waits for its user lends the worker's only slot, and its process stays.
func TestAnotherSessionRunsWhileTheUserDecides(t *testing.T) {
	t.Parallel()
	client, _ := startWorker(t, newAgent(t, Config{Command: actorCommand(t), Permissions: AskUser}), worker.Config{Concurrency: 1, ParkAfter: time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	chat := client.Session(t.Name() + "-asks")
	receipt, err := chat.Send(ctx, turnstile.Message{Text: "pid\ncall " + wantsPermission + "\npid"})
	expect.OK(t, err)
	said := ""
	outcome, err := actors.Follow(ctx, chat, receipt.ID, func(e session.Event) {
		switch e.Type {
		case session.EventText:
			said += e.Text
		case session.EventQuestionAsked:
			pidOf(t, say(t, client, "pid")) // the other session's turn runs to its end
			_, err := chat.Decide(ctx, e.CallID, session.Allow)
			expect.OK(t, err)
		}
	})
	expect.OK(t, err)
	before, after, ok := strings.Cut(said, selected("y"))
	if outcome.Status != session.StatusDone || !ok || before == "" || before != after {
		t.Errorf("%+v, %q", outcome, said)
	}
}

func TestStopOfAWorkersTurn(t *testing.T) {
	t.Parallel()
	client, _ := startWorker(t, acting(t), worker.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	receipt, err := client.Session(t.Name()).Send(ctx, turnstile.Message{Text: "pid\ncancelled\ntext  obeyed\nend cancelled"})
	expect.OK(t, err)
	said := ""
	outcome, err := actors.Follow(ctx, client.Session(t.Name()), receipt.ID, func(e session.Event) {
		if e.Type == session.EventText && said == "" {
			said = e.Text
			_, err := client.Session(t.Name()).Stop(ctx)
			expect.OK(t, err)
		}
	})
	expect.OK(t, err)
	pid, err := strconv.Atoi(said)
	expect.OK(t, err)
	if outcome.Status != session.StatusStopped || alive(pid) {
		t.Errorf("%+v, process %d is alive: %v", outcome, pid, alive(pid))
	}
	// The session continues.
	if again := pidOf(t, say(t, client, "pid")); again == pid {
		t.Error("the process that was stopped ran another turn")
	}
}

// A turn that takes too long is cancelled, and killed if it does not end.
func TestTimeoutOfAWorkersTurn(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{Command: actorCommand(t, "deaf"), Grace: 300 * time.Millisecond})
	client, _ := startWorker(t, a, worker.Config{AgentTimeout: time.Second})
	if o := say(t, client, "text a\nhang"); o.Status != session.StatusFailed {
		t.Errorf("%+v", o)
	}
}

// A failed turn leaves the agent's session, and the next prompt tells the agent of the turn.
func TestAFailedTurnIsRemembered(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	client, _ := startWorker(t, acting(t, "can-load", "log="+log), worker.Config{})
	pidOf(t, say(t, client, "pid"))
	if o := say(t, client, "end refusal"); o.Status != session.StatusFailed {
		t.Fatalf("%+v", o)
	}
	pidOf(t, say(t, client, "pid"))
	sent, err := os.ReadFile(log)
	expect.OK(t, err)
	lines := strings.Split(strings.TrimSpace(string(sent)), "\n")
	last := lines[len(lines)-1]
	if !strings.Contains(string(sent), "session/load") || !strings.Contains(last, `User: end refusal\n\nAssistant: [This turn failed here: the agent failed]\n\n[End of`) || strings.Contains(last, "User: pid") {
		t.Errorf("%s", sent)
	}
}
