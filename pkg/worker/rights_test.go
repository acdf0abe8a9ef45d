package worker_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"turnstile/internal/redisconn"
	"turnstile/internal/rediskey"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A worker whose Redis user lacks one command or key of docs/redis-rules.txt names it, and does not start.
func TestMissingRightsHaveNames(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--appendonly", "yes", "--appendfsync", "no")
	start := func(t *testing.T, rules []string) error {
		acl.Set(t, server.Client(), acl.Worker, rules...)
		rdb, err := redisconn.Open(acl.URL(t, server.URL(), acl.Worker))
		expect.OK(t, err)
		defer func() { _ = rdb.Close() }()
		w, err := worker.New(rdb, echo.New(), worker.Config{AgentName: "echo", Logger: slog.New(slog.DiscardHandler)})
		expect.OK(t, err)
		if err := w.Start(t.Context()); err != nil {
			return err
		}
		return w.Stop(expect.Ended())
	}
	rules := acl.Rules(t)[acl.Worker]
	expect.OK(t, start(t, rules))
	for i, word := range rules {
		kind, name := word[:1], word[1:]
		switch {
		case kind != "+" && kind != "~" && kind != "&", strings.HasPrefix(name, "asynq:{session:"), strings.HasPrefix(name, "turnstile:{session:"):
			continue // which sessions a user may reach is the operator's choice
		case strings.HasPrefix(name, "asynq:") && name != "asynq:queues" && name != "asynq:servers":
			continue // asynq logs them
		case name == "ping" || name == "info" || strings.Contains(name, "|"):
			continue // Check calls the first two; a warning names the others' lack
		case name == "bzpopmin":
			continue // without it a worker gets no message; its log says why
		}
		err := start(t, slices.Delete(slices.Clone(rules), i, i+1))
		if kind == "+" {
			name = strings.ToUpper(name)
		}
		if name = strings.TrimSuffix(name, "*"); err == nil || !strings.Contains(strings.ToUpper(redisconn.Explain(err)), strings.ToUpper(name)) {
			t.Errorf("without %s: %v", word, err)
		}
	}
	n, err := server.Client().Exists(t.Context(), rediskey.Timer("rights")).Result()
	expect.OK(t, err)
	expect.Equal(t, "keys that the check leaves", n, 0)
}
