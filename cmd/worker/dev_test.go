package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"turnstile/internal/program/daemon"
	"turnstile/internal/program/service"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

var (
	redisShown     = regexp.MustCompile(`redis://127\.0\.0\.1:\d+/0`)
	dashboardShown = regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/asynqmon`)
)

func TestDev(t *testing.T) {
	t.Parallel()
	w := start(t, nil, "--dev")
	w.out.Await(t, "a worker")
	said := w.out.String()
	url := redisShown.FindString(said)
	addr := dashboardShown.FindStringSubmatch(said)
	if url == "" || addr == nil {
		t.Fatalf("it does not say where things are:\n%s", said)
	}
	c := client(t, url)
	if got := reply(t, c, "demo", "hello"); got != "echo: hello" {
		t.Errorf("reply %q", got)
	}
	if got := status(t, addr[1], "/asynqmon"); got != 200 {
		t.Errorf("asynqmon: %d", got)
	}
	if r := call(t, nil, "health").want(t, exitOK); !strings.HasPrefix(r.out, "healthy: ") || !strings.Contains(r.out, addr[1]) {
		t.Errorf("health beside --dev at %s: %q", addr[1], r.out)
	}
	for _, want := range []string{" -s demo --wait hello\n", "echo: ", "REDIS_URL=" + url + " "} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	// An unusual address is printed.
	for port, usual := range map[string]bool{"6379": strings.Contains(url, ":6379/"), "8080": strings.HasSuffix(addr[1], ":8080")} {
		if strings.Contains(said, port+" is taken by another program") == usual {
			t.Errorf("port %s: it says:\n%s", port, said)
		}
	}
	w.stop(t)
	if w.err.String() != "" {
		t.Errorf("stderr: %s", w.err)
	}
	if _, err := c.Session("demo").Info(limited(t)); err == nil {
		t.Error("its Redis is still there")
	}
}

// Settings from outside count.
func TestDevHonoursSettings(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	addr := freeAddr(t)
	w := start(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=tr a-z A-Z", "TURNSTILE_LOG_LEVEL=info"}, "--dev", "--http-addr", addr)
	w.err.Await(t, "worker started")
	w.out.Await(t, "@"+addr+"/asynqmon\n")
	if got := reply(t, c, "demo", "hello"); got != "HELLO" {
		t.Errorf("reply %q", got)
	}
	w.stop(t)
	if said := w.out.String(); strings.Contains(said, url) || !strings.Contains(said, "the one of REDIS_URL") || !strings.Contains(said, "exec: tr\n") {
		t.Errorf("it says:\n%s", said)
	}
	if _, err := c.Session("demo").Info(limited(t)); err != nil {
		t.Errorf("it has ended a Redis that is not its own: %v", err)
	}
	r := call(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=exec"}, "--dev").want(t, exitUsage)
	if !strings.Contains(r.err, "TURNSTILE_AGENT_COMMAND is not set") {
		t.Errorf("stderr %q", r.err)
	}
}

func TestDevDashboardWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		environ []string
		write   bool
	}{
		"a Redis of its own":    {nil, true},
		"another's Redis":       {[]string{"REDIS_URL=redis://db"}, false},
		"not if told otherwise": {[]string{"TURNSTILE_DASHBOARD_WRITE=false"}, false},
		"another's, told so":    {[]string{"REDIS_URL=redis://db", "TURNSTILE_DASHBOARD_WRITE=true"}, true},
	} {
		s, err := newProgram(c.environ, nil).settings(nil, true)
		if err != nil || s.DashboardWrite != c.write {
			t.Errorf("%s: %v, %v", name, s.DashboardWrite, err)
		}
	}
}

func TestNextPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := load(t, map[string]string{"TURNSTILE_HTTP_ADDR": l.Addr().String()})
	c := service.HTTPConfig(s, nil, slog.New(slog.DiscardHandler), nil)
	c.RedisURL = "redis://127.0.0.1:1"
	server, err := daemon.StartHTTP(limited(t), c, true)
	if err != nil {
		t.Fatal(err)
	}
	defer service.StopHTTP(limited(t), server, nil, c.Logger)
	_, taken, _ := net.SplitHostPort(l.Addr().String())
	_, got, _ := net.SplitHostPort(server.Addr())
	from, _ := strconv.Atoi(taken)
	if port, _ := strconv.Atoi(got); port <= from || port >= from+daemon.PortsTried {
		t.Errorf("port %s is taken, and it is on %s", taken, got)
	}
}

// --dev ends when its Redis ends.
func TestDevRedisDies(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	cmd, s := process(t, []string{"HOME=" + t.TempDir()}, "--dev")
	s.Await(t, "a worker")
	rdb, err := redisconn.Open(redisShown.FindString(s.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	info, err := rdb.InfoMap(limited(t), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(info["Server"]["process_id"])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exits(t, cmd, s, exitOther)
	s.Await(t, "the Redis of --dev ended")
}

// --dev serves the gateway and the board next to asynqmon. They require a token when asynqmon does.
func TestDevServesTheGateway(t *testing.T) {
	t.Parallel()
	w := start(t, nil, "--dev", "--http-addr", "127.0.0.1:0")
	w.out.Await(t, "a worker")
	base := "http://" + dashboardShown.FindStringSubmatch(w.out.String())[1]
	send := func(base, token string) (status int, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/sessions/demo/messages", strings.NewReader(`{"text": "hello"}`))
		expect.OK(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Prefer", "wait=60")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := http.DefaultClient.Do(r)
		expect.OK(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		expect.OK(t, err)
		return response.StatusCode, string(body)
	}
	open := func(url string) (status int, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		expect.OK(t, err)
		response, err := http.DefaultClient.Do(r)
		expect.OK(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		expect.OK(t, err)
		return response.StatusCode, string(body)
	}
	if code, text := send(base, ""); code != 200 || !strings.Contains(text, `"reply":"echo: hello"`) {
		t.Errorf("%d %s", code, text)
	}
	if code, text := open(base + "/board/s/demo"); code != 200 || !strings.Contains(text, "echo: hello") {
		t.Errorf("the board: %d %s", code, text)
	}
	w.stop(t)
	w = start(t, []string{"TURNSTILE_HTTP_TOKEN=secret"}, "--dev", "--http-addr", "127.0.0.1:0")
	w.out.Await(t, "a worker")
	base = "http://" + dashboardShown.FindStringSubmatch(w.out.String())[1]
	if code, _ := send(base, ""); code != 401 {
		t.Errorf("without the token: %d", code)
	}
	if code, text := open(base + "/board/"); code != 200 || !strings.Contains(text, "Log in") {
		t.Errorf("the board: %d %s", code, text)
	}
	if code, text := send(base, "secret"); code != 200 {
		t.Errorf("with the token: %d %s", code, text)
	}
	w.stop(t)
}

// With two --dev, both gateways route by the one file of destinations.
func TestDevSharesDestinations(t *testing.T) {
	t.Parallel()
	url, operator := redistest.URL(t), admin.NewClient(redistest.New(t))
	file := filepath.Join(t.TempDir(), "destinations.json")
	expect.OK(t, os.WriteFile(file, []byte(`[{"name": "bot", "url": "https://bot.example/hook", "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "sessions": ["web:*"]}]`), 0o600))
	for i, environ := range [][]string{{"TURNSTILE_GATEWAY_DESTINATIONS_FILE=" + file}, nil} {
		w := start(t, append(environ, "REDIS_URL="+url), "--dev", "--http-addr", "127.0.0.1:0")
		w.out.Await(t, "a worker")
		base := "http://" + dashboardShown.FindStringSubmatch(w.out.String())[1]
		key := fmt.Sprint("web:", i)
		for body, want := range map[string]int{`{"text": "hello"}`: 200, `{"text": "hello", "reply_to": "unknown"}`: 400} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/v1/sessions/"+key+"/messages", strings.NewReader(body))
			expect.OK(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Prefer", "wait=60")
			response, err := http.DefaultClient.Do(r)
			expect.OK(t, err)
			expect.OK(t, response.Body.Close())
			expect.Equal(t, body, response.StatusCode, want)
		}
		n := 0
		for d, err := range operator.Session(key).Deliveries(t.Context()) {
			expect.OK(t, err)
			expect.Equal(t, "to", d.Destination, "bot")
			n++
		}
		expect.Equal(t, "outcomes", n, 1)
	}
}
