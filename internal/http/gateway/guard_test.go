package gateway_test

import (
	"log/slog"
	"net/http"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
)

// A gateway without tokens refuses requests while a worker's agent runs programs. One with tokens does
// not.
func TestGuard(t *testing.T) {
	t.Parallel()
	r, locked := newRig(t), newRig(t, withTokens(t, threeTokens))
	r.gateway.Guard(t.Context())
	r.call("GET", "/v1/sessions", nil).want(200)
	w, err := worker.New(acl.Client(t, acl.Worker), echo.New(), worker.Config{
		AgentName: "openai", RunsPrograms: true, Logger: slog.New(slog.DiscardHandler),
	})
	expect.OK(t, err)
	expect.OK(t, w.Start(t.Context()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	operator := admin.NewClient(r.redis)
	expect.Soon(t, "the worker's heartbeat", func() bool {
		workers, err := operator.Workers(t.Context())
		return err == nil && len(workers) > 0 && workers[0].Agent == "openai" && workers[0].Programs
	})
	another := rigOn(t, r.redis) // the first one looks again within 5 s
	for _, g := range []*rig{another, locked} {
		g.gateway.Guard(t.Context())
	}
	p := another.call("GET", "/v1/sessions", nil).problem(http.StatusForbidden, gateway.Forbidden)
	contains(t, "the problem", p.Detail, "TURNSTILE_GATEWAY_TOKENS_FILE")
	another.call("POST", "/v1/sessions/s/messages", object{"text": "hi"}).problem(http.StatusForbidden, gateway.Forbidden)
	another.call("GET", "/openapi.yaml", nil).want(200)
	locked.as("root").call("GET", "/v1/sessions", nil).want(200)
	expect.Soon(t, "the gateway of before to be closed", func() bool {
		return r.call("GET", "/v1/sessions", nil).StatusCode == http.StatusForbidden
	})
}
