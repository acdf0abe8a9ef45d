package examples

import (
	"context"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"turnstile"

	"go.uber.org/goleak"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/exec"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The test binary is also the guardian of the agents.
func TestMain(m *testing.M) {
	exec.Init()
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	expect.AtOnce(4)
	goleak.VerifyTestMain(m)
}

func newAgent(t *testing.T, config exec.Config) *exec.Agent {
	t.Helper()
	config.Logger = slog.New(slog.DiscardHandler)
	a, err := exec.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// conversation is a session, with a worker that runs an agent.
type conversation struct {
	*testing.T
	ctx    context.Context
	client *actors.Client
	worker *worker.Worker
	key    string
}

// newConversation starts a worker with the agent. It ends with the test.
func newConversation(t *testing.T, a agent.Agent, timeout time.Duration) conversation {
	t.Helper()
	rdb := redistest.New(t)
	w, err := worker.New(rdb, a, worker.Config{
		Concurrency: 1, AgentTimeout: timeout,
		RetryBackoff: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(func() {
		cancel()
		_ = w.Stop(expect.Ended())
	})
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	// All databases share their channels, so the key is this test's own.
	key := regexp.MustCompile(`\W+`).ReplaceAllString(t.Name(), "-")
	return conversation{t, ctx, actors.NewClient(rdb), w, key}
}

// says sends a message, shows its events to see and waits for its end.
func (c conversation) says(text string, see func(session.Event)) session.Outcome {
	c.Helper()
	receipt, err := c.client.Session(c.key).Send(c.ctx, turnstile.Message{Text: text})
	if err != nil {
		c.Fatal(err)
	}
	end, err := actors.Follow(c.ctx, c.client.Session(c.key), receipt.ID, see)
	if err != nil {
		c.Fatalf("the session is stuck: %v", err)
	}
	return end
}

// wants sends a message and checks the reply.
func (c conversation) wants(text, reply string) {
	c.Helper()
	if end := c.says(text, func(session.Event) {}); end.Status != session.StatusDone || end.Reply != reply {
		c.Errorf("%q ended as %s (%s) with the reply %q; want %q", text, end.Status, end.Why(), end.Reply, reply)
	}
}
