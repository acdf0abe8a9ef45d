package httpd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile/internal/program/config"
	"turnstile/internal/redis/redisconn"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// valid returns a valid configuration, with the Redis at url.
func valid(t *testing.T, url string) Config {
	t.Helper()
	client, err := redisconn.Open(url, func(o *redis.UniversalOptions) { o.MaxRetries = -1 })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return Config{
		Addr: "127.0.0.1:0", RedisURL: url, Logger: slog.New(slog.DiscardHandler),
		Ping: func(ctx context.Context) error { return client.Ping(ctx).Err() },
	}
}

func start(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask sends one request, which edit may change first.
func ask(t *testing.T, s *Server, method, path string, edit ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	addr, err := reachable(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range edit {
		f(r)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func want(t *testing.T, s *Server, code int, method, path string, edit ...func(*http.Request)) string {
	t.Helper()
	response, body := ask(t, s, method, path, edit...)
	if response.StatusCode != code {
		t.Errorf("%s %s: %s, want %d: %s", method, path, response.Status, code, body)
	}
	return body
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// readyCheck is HealthCheck for /readyz.
func readyCheck(ctx context.Context, addr string) error { return check(ctx, addr, "/readyz") }

func TestHealthAndReadiness(t *testing.T) {
	t.Parallel()
	redisServer := redistest.StartServer(t)
	c := valid(t, redisServer.URL())
	var draining atomic.Pointer[Drain]
	var stuck atomic.Pointer[error]
	var blocked atomic.Int64
	c.LogBlocked = func() time.Duration { return time.Duration(blocked.Load()) }
	var unable atomic.Value
	unable.Store("")
	c.Unable = func() string { return unable.Load().(string) }
	c.Draining = func() (Drain, bool) {
		if d := draining.Load(); d != nil {
			return *d, true
		}
		return Drain{}, false
	}
	c.Healthy = func() error {
		if err := stuck.Load(); err != nil {
			return *err
		}
		return nil
	}
	s := start(t, c)
	ctx := t.Context()

	if body := want(t, s, 200, "GET", "/healthz"); body != `{"status":"ok"}`+"\n" {
		t.Errorf("healthz: %s", body)
	}
	if body := want(t, s, 200, "GET", "/readyz"); body != `{"status":"ok"}`+"\n" {
		t.Errorf("readyz: %s", body)
	}
	if err := errors.Join(HealthCheck(ctx, s.Addr()), readyCheck(ctx, s.Addr())); err != nil {
		t.Error(err)
	}
	want(t, s, 405, "POST", "/healthz")

	for _, c := range []struct {
		drain       Drain
		body, words string
	}{
		{
			Drain{"restart", 3, 42},
			`{"status":"draining","reason":"restart","running":3,"seconds_left":42}`,
			": draining (restart): 3 running, 42s left",
		},
		{
			Drain{Reason: "shutdown"},
			`{"status":"draining","reason":"shutdown","running":0,"seconds_left":0}`,
			": draining (shutdown): 0 running, 0s left",
		},
	} {
		draining.Store(&c.drain)
		if body := want(t, s, 503, "GET", "/readyz"); body != c.body+"\n" {
			t.Errorf("readyz: %s", body)
		}
		if err := readyCheck(ctx, s.Addr()); !errors.Is(err, ErrUnhealthy) || !strings.HasSuffix(err.Error(), c.words) {
			t.Error(err)
		}
	}
	if err := HealthCheck(ctx, s.Addr()); err != nil {
		t.Errorf("a draining worker is healthy: %v", err)
	}
	draining.Store(nil)

	unable.Store("cannot start agent a: gone")
	if body := want(t, s, 503, "GET", "/readyz"); body != `{"status":"unable","error":"cannot start agent a: gone"}`+"\n" {
		t.Errorf("readyz: %s", body)
	}
	want(t, s, 200, "GET", "/healthz")
	unable.Store("")

	redisServer.Kill()
	if body := want(t, s, 503, "GET", "/readyz"); !strings.Contains(body, `"redis unreachable"`) || !strings.Contains(body, "refuses the connection") {
		t.Errorf("readyz: %s", body)
	}
	if err := HealthCheck(ctx, s.Addr()); err != nil {
		t.Errorf("a worker without Redis is healthy: %v", err)
	}
	redisServer.Start()
	want(t, s, 200, "GET", "/readyz")

	blocked.Store(int64(time.Minute - 1))
	want(t, s, 200, "GET", "/readyz")
	blocked.Store(int64(time.Minute))
	if body := want(t, s, 503, "GET", "/readyz"); !strings.HasPrefix(body, `{"status":"log stuck","error":"nobody reads the log: `) {
		t.Errorf("readyz: %s", body)
	}
	if err := HealthCheck(ctx, s.Addr()); err != nil {
		t.Errorf("a worker with a stuck log is healthy: %v", err)
	}

	why := errors.New("no renewal for 1m")
	stuck.Store(&why)
	if err := HealthCheck(ctx, s.Addr()); !errors.Is(err, ErrUnhealthy) || !strings.Contains(err.Error(), "stuck: no renewal for 1m") {
		t.Error(err)
	}
}

// A Redis that responds and stores nothing is shown as such. Only a server with an API still has work.
func TestRedisRefusesWrites(t *testing.T) {
	t.Parallel()
	redisServer := redistest.StartServer(t)
	redisServer.RefuseWrites()
	for _, code := range []int{503, 200} {
		c := valid(t, redisServer.URL())
		if code == 200 {
			c.API = http.NotFoundHandler()
		}
		if body := want(t, start(t, c), code, "GET", "/readyz"); !strings.Contains(body, `{"status":"redis refuses writes","error":"neither messages nor heartbeats are stored: Redis cannot save`) {
			t.Error(body)
		}
	}
}

// Requests from other machines do not get errors, which name hosts and ports.
func TestErrorsAreShownOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	c := valid(t, "redis://127.0.0.1:1")
	c.Addr, c.Token = "0.0.0.0:0", "token"
	s := start(t, c)
	if body := want(t, s, 503, "GET", "/readyz"); body != `{"status":"redis unreachable"}`+"\n" {
		t.Errorf("readyz: %s", body)
	}
	_, port, _ := net.SplitHostPort(s.Addr())
	for _, addr := range []string{"0.0.0.0:" + port, ":" + port} {
		if err := HealthCheck(t.Context(), addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestHealthCheckFindsNoWorker(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for addr, hint := range map[string]string{
		"":                             "TURNSTILE_HTTP_ADDR is empty",
		"8080":                         "not HOST:PORT",
		"127.0.0.1:1":                  "no worker responds",
		other.Listener.Addr().String(): "is not a worker",
	} {
		if err := HealthCheck(t.Context(), addr); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: %v, want %q", addr, err, hint)
		}
	}
	if got, err := reachable("[::]:1"); err != nil || got != "[::1]:1" {
		t.Errorf("[::]:1 is reached as %s, %v", got, err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	c := valid(t, redistest.URL(t))
	for _, addr := range []string{":8080", "0.0.0.0:8080", "[::]:8080", "192.0.2.1:80"} {
		c.Addr = addr
		if _, err := New(c); !errors.Is(err, ErrNeedsToken) {
			t.Errorf("%s: %v, want ErrNeedsToken", addr, err)
		}
	}
	c.Addr, c.Token = "8080", "token"
	if _, err := New(c); !errors.Is(err, config.ErrBadAddress) {
		t.Errorf("%v, want ErrMalformed", err)
	}
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := start(t, valid(t, redistest.URL(t)))
	if err := s.Start(ctx); !errors.Is(err, ErrStarted) {
		t.Errorf("a second Start: %v", err)
	}

	c := valid(t, redistest.URL(t))
	c.Addr = s.Addr()
	taken, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := taken.Start(ctx); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("on a port that is taken: %v", err)
	}
	if err := errors.Join(taken.Stop(ctx), taken.Stop(ctx)); err != nil {
		t.Errorf("Stop without Start: %v", err)
	}
	if err := taken.Start(ctx); !errors.Is(err, ErrStarted) {
		t.Errorf("Start after Stop: %v", err)
	}
	if err := errors.Join(s.Stop(ctx), s.Stop(ctx)); err != nil {
		t.Error(err)
	}
	if err := HealthCheck(ctx, s.Addr()); err == nil {
		t.Error("it answers after Stop")
	}
}

// Stop lets a request in progress end, but its wait is bounded.
func TestStopIsGraceful(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	c := valid(t, redistest.URL(t))
	c.Ping = func(ctx context.Context) error {
		close(begun)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s := start(t, c)
	answer := make(chan error, 1)
	ctx := t.Context()
	go func() { answer <- readyCheck(ctx, s.Addr()) }()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	select {
	case err := <-stopped:
		t.Fatalf("Stop did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if err := errors.Join(<-answer, <-stopped); err != nil {
		t.Error(err)
	}
}

func TestStopClosesConnections(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	c := valid(t, redistest.URL(t))
	c.Ping = func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	ctx := t.Context()
	go func() { answer <- readyCheck(ctx, s.Addr()) }()
	<-begun
	late, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Stop(late); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the time was over", err)
	}
	if err := <-answer; err == nil {
		t.Error("the request was answered")
	}
}
