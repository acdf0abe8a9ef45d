package gateway_test

import (
	"context"
	"log/slog"
	"testing"

	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
)

// traced is the echo agent that reports each turn's traceparent.
type traced struct {
	*echo.Agent
	traces chan string
}

func (a traced) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	a.traces <- turn.TraceParent
	return a.Agent.Run(ctx, turn)
}

// A request's traceparent reaches the agent. In a turn of several messages, the first one counts.
func TestTraceParentReachesTheAgent(t *testing.T) {
	t.Parallel()
	const one, two = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-11111111111111111111111111111111-2222222222222222-00"
	r := newRig(t)
	a := traced{echo.New(), make(chan string, 10)}
	w, err := worker.New(acl.Client(t, acl.Worker), a, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	for _, sent := range []struct{ header, want string }{
		{one, one}, {"01" + two[2:] + "-new", two}, {"00-x", ""}, {"", ""},
	} {
		response := r.call("POST", "/v1/sessions/s/messages", object{"text": "hello"}, header("Traceparent", sent.header), header("Prefer", "wait=60")).want(200)
		expect.Equal(t, "the agent's", expect.Received(t, "a turn", a.traces), sent.want)
		expect.Equal(t, "the response's", response.Header.Get("Traceparent"), sent.want)
	}

	r.call("POST", "/v1/sessions/s/queue", object{"mode": "collect", "debounce_ms": 1}).want(200)
	r.call("POST", "/v1/sessions/s/messages", object{"text": "tool=look:300ms"}).want(202)
	expect.Equal(t, "none", expect.Received(t, "a turn", a.traces), "")
	r.call("POST", "/v1/sessions/s/messages", object{"text": "a"}, header("Idempotency-Key", "a")).want(202)
	r.call("POST", "/v1/sessions/s/messages", object{"text": "b"}, header("Traceparent", two), header("Idempotency-Key", "b")).want(202)
	r.call("POST", "/v1/sessions/s/messages", object{"text": "c"}, header("Traceparent", one), header("Idempotency-Key", "c")).want(202)
	r.call("POST", "/v1/sessions/s/messages", object{"text": "b"}, header("Traceparent", one), header("Idempotency-Key", "b")).want(202)
	expect.Equal(t, "of three messages", expect.Received(t, "a turn", a.traces), two)
}
