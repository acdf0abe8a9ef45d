package main

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"turnstile/internal/redisconn"
	"turnstile/pkg/sessionqueue"
)

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// status asks an HTTP server for a path.
func status(t *testing.T, addr, path string) int {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func TestWork(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	addr := freeAddr(t)
	w := echoWorker(t, url, "TURNSTILE_HTTP_ADDR="+addr, "TURNSTILE_LOG_FORMAT=json")
	if got := reply(t, c, "a", "hello"); got != "echo: hello" {
		t.Errorf("reply %q", got)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/asynqmon": 200} {
		if got := status(t, addr, path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if r := call(t, nil, "health", "--http-addr", addr).want(t, exitOK); r.out+r.err != "" {
		t.Errorf("health says %q", r.out+r.err)
	}
	w.stop(t)
	call(t, nil, "health", "--http-addr", addr).want(t, exitOther)
	for line := range strings.Lines(w.err.String()) {
		var entry struct{ Time, Level, Msg string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Level == "" || entry.Msg == "" {
			t.Errorf("a line of the log that is no JSON: %q", line)
		}
	}
}

// HTTP is there until the drain has ended, and says that it is under way.
func TestReadyWhileDraining(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	addr := freeAddr(t)
	w := echoWorker(t, url, "TURNSTILE_HTTP_ADDR="+addr)
	id := submit(t, c, "a", "sleep=1s hello")
	untilEvent(t, c, "a", id, sessionqueue.EventTurnStarted)
	w.cancel()
	w.err.await(t, "msg=draining")
	if ready, healthy := status(t, addr, "/readyz"), status(t, addr, "/healthz"); ready != 503 || healthy != 200 {
		t.Errorf("while it drains /readyz says %d, /healthz %d", ready, healthy)
	}
	end, err := c.Wait(limited(t), "a", id)
	if err != nil || end.Reply != "echo: hello" {
		t.Errorf("the turn that was let end: %+v, %v", end, err)
	}
	w.wait(t, exitOK)
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	w := start(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo"}, "--log-level", "warn")
	reply(t, c, "a", "hello")
	w.stop(t)
	if strings.Contains(w.err.String(), "level=INFO") {
		t.Errorf("the log: %s", w.err)
	}
}

func TestAddressTaken(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, args := range [][]string{{"--agent", "echo"}, {"dashboard"}} {
		args = append(args, "--http-addr", l.Addr().String(), "--log-level", "error")
		r := call(t, []string{"REDIS_URL=" + url}, args...).want(t, exitOther)
		if strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "address already in use: set TURNSTILE_HTTP_ADDR to another port") {
			t.Errorf("%v: stderr %q", args, r.err)
		}
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	addr := freeAddr(t)
	d := start(t, []string{"REDIS_URL=" + url}, "dashboard", "--http-addr", addr)
	d.err.await(t, "serving HTTP")
	for _, path := range []string{"/asynqmon", "/asynqmon/api/queues", "/healthz", "/readyz"} {
		if got := status(t, addr, path); got != 200 {
			t.Errorf("%s: %d", path, got)
		}
	}
	d.stop(t)
}

// A Redis that comes up a moment later is waited for.
func TestRedisComesUp(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	w := start(t, []string{"REDIS_URL=redis://" + addr, "TURNSTILE_AGENT=echo"})
	w.err.await(t, "Redis is not there yet")
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(addr); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	w.err.await(t, "worker started")
	w.stop(t)
}

// One that does not come up is not waited for endlessly, and a signal ends the
// wait.
func TestRedisStaysAway(t *testing.T) {
	t.Parallel()
	away := []string{"REDIS_URL=redis://" + freeAddr(t), "TURNSTILE_AGENT=echo", "TURNSTILE_LOG_LEVEL=error"}
	asked := start(t, append(away[:2:2], "TURNSTILE_LOG_LEVEL=info"))
	asked.err.await(t, "Redis is not there yet")
	asked.stop(t)

	r := call(t, away).want(t, exitOther)
	if strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "refuses the connection: is it running, and is REDIS_URL right?") {
		t.Errorf("stderr %q", r.err)
	}
}

func TestMayPass(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		answered("LOADING Redis is loading the dataset in memory"): true,
		answered("WRONGPASS invalid username-password pair"):       false,
		redisconn.ErrTooOld: false,
		net.ErrClosed:       true,
		errors.New("x"):     true,
	} {
		if mayPass(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

// answered is an error that Redis itself answered.
type answered string

func (a answered) Error() string { return string(a) }
func (answered) RedisError()     {}

func TestPoolSize(t *testing.T) {
	t.Parallel()
	for concurrency, want := range map[string]int{"1": 16, "50": 58, "10000": 128} {
		if got := poolSize(load(t, map[string]string{"TURNSTILE_CONCURRENCY": concurrency})); got != want {
			t.Errorf("%s turns: %d connections, want %d", concurrency, got, want)
		}
	}
}
