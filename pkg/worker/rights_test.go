package worker_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A worker whose Redis user lacks a right names it, and does not start.
func TestStartWithoutARight(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	rules := acl.Rules(t)[acl.Worker]
	acl.Set(t, server.Client(), acl.Worker, slices.DeleteFunc(rules, func(word string) bool { return word == "+lmove" })...)
	rdb, err := redisconn.Open(acl.URL(t, server.URL(), acl.Worker))
	expect.OK(t, err)
	defer func() { _ = rdb.Close() }()
	w, err := worker.New(rdb, echo.New(), worker.Config{AgentName: "echo", Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	if err := w.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "it lacks LMOVE;") {
		t.Errorf("the error is %v", err)
	}
}
