package gateway_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/internal/http/gateway"
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

// Each address has its own bound, and an IPv6 network is one address. A bound for all addresses
// together limits the addresses remembered.
func TestBoundsOfFailedLogins(t *testing.T) {
	t.Parallel()
	l := gateway.NewAttempts()
	fail := func(address string) bool { return l.Begin(address, false) == 0 }
	for i := range 10 {
		expect.Equal(t, "attempt "+strconv.Itoa(i), fail("192.0.2.1:1000"), true)
	}
	expect.Equal(t, "one too many", fail("192.0.2.1:1001"), false)
	expect.Equal(t, "as IPv6", fail("[::ffff:192.0.2.1]:1001"), false)
	expect.Equal(t, "another address", fail("192.0.2.2:1000"), true)
	l.Pass(6 * time.Second)
	expect.Equal(t, "later", fail("192.0.2.1:1000"), true)
	expect.Equal(t, "only one", fail("192.0.2.1:1000"), false)
	for i := range 10 {
		expect.Equal(t, "of a network", fail("[2001:db8:0:1::"+strconv.Itoa(i+1)+"]:1"), true)
	}
	expect.Equal(t, "of a network, one too many", fail("[2001:db8:0:1:ffff::1%eth0]:1"), false)
	for range 1000 {
		expect.Equal(t, "no failure", l.Begin("192.0.2.3:1", true), 0)
	}
	l.Pass(time.Hour)
	failed := 0
	for i := range 100_000 {
		if fail("10." + strconv.Itoa(i>>16) + "." + strconv.Itoa(i>>8&255) + "." + strconv.Itoa(i&255) + ":1") {
			failed++
		}
	}
	expect.Equal(t, "in total", failed, 100)
	expect.Equal(t, "remembered", l.Remembered(), 100)
	l.Pass(time.Hour)
	expect.Equal(t, "an hour later", fail("192.0.2.9:1"), true)
	expect.Equal(t, "remembered then", l.Remembered(), 1)
}

// Guesses of a token are bounded for each address and are in the log. Then the right token is
// refused too, unless the address may be a proxy's.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := rigWith(t, acl.Client(t, acl.Gateway), func(d *gateway.Deps) { d.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, withTokens(t, threeTokens))
	send := func(address, token string) int {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/sessions", http.NoBody)
		request.RemoteAddr = address
		request.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		r.gateway.ServeHTTP(w, request)
		if after, err := strconv.Atoi(w.Header().Get("Retry-After")); w.Code == http.StatusTooManyRequests && (err != nil || after < 1 || after > 6) {
			t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
		}
		return w.Code
	}
	const attacker, proxy, other = "203.0.113.7:1", "10.0.0.7:1", "203.0.113.8:1"
	for range 30 {
		expect.Equal(t, "before", send(attacker, "web"), 200)
	}
	for _, address := range []string{attacker, proxy} {
		refused := 0
		for range 50 {
			if send(address, "guess") == http.StatusUnauthorized {
				refused++
			}
		}
		if refused < 10 || refused > 15 { // more than ten if they took longer than 6 s
			t.Errorf("%d guesses of %s were answered", refused, address)
		}
	}
	expect.Equal(t, "a right guess", send(attacker, "web"), 429)
	expect.Equal(t, "a proxy's other client", send(proxy, "web"), 200)
	expect.Equal(t, "another address", send(other, "web"), 200)
	if n := strings.Count(log.String(), "unknown token"); n < 20 || n > 30 {
		t.Errorf("%d guesses are in the log: %s", n, log.String())
	}
	if strings.Contains(log.String(), "guess\"") {
		t.Error("the log has what was guessed")
	}
}
