package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"turnstile/internal/program/httpd"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	programs "turnstile/test/program"
	"turnstile/test/watched"
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

func status(t *testing.T, addr, path string) int {
	t.Helper()
	code, _ := page(t, addr, path)
	return code
}

// page requests a path of an HTTP server.
func page(t *testing.T, addr, path string) (code int, body string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
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
	w.err.Await(t, `"msg":"turn ended"`)
	code, body := page(t, addr, "/metrics")
	for _, line := range []string{`turnstile_turns_ended_total{status="done"} 1`, "turnstile_turn_slots 10", "turnstile_draining 0", "turnstile_redis_up 1"} {
		if code != 200 || !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("/metrics (%d) lacks %s", code, line)
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

// HTTP is served until the end of the drain, and shows its progress.
func TestReadyWhileDraining(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	addr := freeAddr(t)
	cmd, s := process(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo", "TURNSTILE_HTTP_ADDR=" + addr, "TURNSTILE_DRAIN_TIMEOUT=1h"})
	long := send(t, c, "a", "sleep=1h hello")
	untilEvent(t, c, "a", long, session.EventTurnStarted)
	short := send(t, c, "b", "sleep=1s hello")
	untilEvent(t, c, "b", short, session.EventTurnStarted)
	sendSignals(t, cmd.Process, syscall.SIGHUP)
	s.Await(t, "msg=draining")
	if code, body := page(t, addr, "/readyz"); code != 503 || !strings.HasPrefix(body, `{"status":"draining","reason":"restart","running":`) {
		t.Errorf("while it drains /readyz says %d %s", code, body)
	}
	if code := status(t, addr, "/healthz"); code != 200 {
		t.Errorf("while it drains /healthz says %d", code)
	}
	if end, err := c.Session("b").Wait(limited(t), short); err != nil || end.Reply != "echo: hello" {
		t.Errorf("the turn that was let end: %+v, %v", end, err)
	}
	s.Await(t, `msg="still draining"`)
	var ready struct {
		Status, Reason string
		Running        int
		SecondsLeft    int `json:"seconds_left"`
	}
	_, body := page(t, addr, "/readyz")
	if err := json.Unmarshal([]byte(body), &ready); err != nil || ready.Running != 1 || ready.SecondsLeft < 3000 || ready.SecondsLeft > 3600 {
		t.Errorf("with one turn left /readyz says %s (%v)", body, err)
	}
	sendSignals(t, cmd.Process, syscall.SIGHUP)
	exits(t, cmd, s, exitRestart)
	s.Await(t, "finished=1 requeued=1 lost=0")
	givenBack(t, c, long, "restart_timeout")
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
	d := start(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=echo"}, "dashboard", "--http-addr", addr)
	d.err.Await(t, "serving HTTP")
	for _, path := range []string{"/asynqmon", "/asynqmon/api/queues", "/healthz", "/readyz", "/metrics"} {
		if got := status(t, addr, path); got != 200 {
			t.Errorf("%s: %d", path, got)
		}
	}
	d.stop(t)
}

// The worker waits for a Redis that starts a moment later.
func TestRedisComesUp(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	w := start(t, []string{"REDIS_URL=redis://" + addr, "TURNSTILE_AGENT=echo"})
	w.err.Await(t, "Redis is not ready yet")
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(addr); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	w.err.Await(t, "worker started")
	w.stop(t)
}

// The wait for a Redis that does not start is bounded, and a signal ends it.
func TestRedisStaysAway(t *testing.T) {
	t.Parallel()
	away := []string{"REDIS_URL=redis://" + freeAddr(t), "TURNSTILE_AGENT=echo", "TURNSTILE_LOG_LEVEL=error"}
	asked := start(t, append(away[:2:2], "TURNSTILE_LOG_LEVEL=info"))
	asked.err.Await(t, "Redis is not ready yet")
	asked.stop(t)

	r := call(t, away).want(t, exitOther)
	if strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "refuses the connection: is it running, and is REDIS_URL right?") {
		t.Errorf("stderr %q", r.err)
	}
}

// unread starts the built program with stdout and stderr on a full pipe, and returns its other end.
func unread(t *testing.T, environ []string, args ...string) (*programs.Process, *os.File) {
	t.Helper()
	r, w := watched.FullPipe(t)
	cmd := newCommand(t, environ, args...)
	cmd.Stdout, cmd.Stderr = w, w
	p := programs.Start(t, cmd)
	_ = w.Close()
	return p, r
}

// Nobody reads the log: all turns are done, and a drain ends as it should. A reader who comes back reads how many
// lines are missing.
func TestNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	addr, file := freeAddr(t), filepath.Join(t.TempDir(), "file")
	p, r := unread(t, []string{
		"REDIS_URL=" + url, "TURNSTILE_HTTP_ADDR=" + addr, "TURNSTILE_LOG_LEVEL=debug", "TURNSTILE_AGENT=exec",
		// Its stderr is more than the worker keeps.
		`TURNSTILE_AGENT_COMMAND=sh -c 'head -c 1500000 /dev/zero | tr "\0" x >&2; read -r file; echo begun .; until [ -e "$file" ]; do sleep 0.1; done'`,
	})
	ends := func(key, id string) {
		t.Helper()
		if end, err := c.Session(key).Wait(limited(t), id); err != nil || end.Status != session.StatusDone {
			t.Fatalf("%+v, %v", end, err)
		}
	}
	ends("a", send(t, c, "a", "/"))
	ends("a", send(t, c, "a", "/"))
	if code, body := page(t, addr, "/readyz"); code != 200 {
		t.Errorf("/readyz within a minute: %d %s", code, body)
	}
	expect.OK(t, r.SetReadDeadline(time.Now().Add(waits)))
	gap := regexp.MustCompile(`level=WARN msg="log lines were left out: nobody read the log" lines=(\d+)\n$`)
	var left []string
	for log := bufio.NewReader(r); left == nil; {
		line, err := log.ReadString('\n')
		expect.OK(t, err)
		left = gap.FindStringSubmatch(line)
	}
	if _, body := page(t, addr, "/metrics"); !strings.Contains(body, "\nturnstile_log_lines_left_out_total "+left[1]+"\n") {
		t.Errorf("%s lines are missing in the log, but /metrics is:\n%s", left[1], body)
	}

	id := send(t, c, "a", file) // and again nobody reads
	untilText(t, c, "a", id, "begun .")
	p.Signal(syscall.SIGTERM)
	untilEvent(t, c, "a", id, session.EventNotice)
	expect.OK(t, os.WriteFile(file, nil, 0o600))
	expect.Equal(t, "exit code", p.ExitCode(), exitOK)
	ends("a", id)
}

// What a program says at its start and at its end keeps it from neither.
func TestEndsThoughNobodyReads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		signal syscall.Signal // 0: it ends by itself
		code   int
	}{
		"wrong flag":             {[]string{"--nothing"}, 0, exitUsage},
		"wrong setting":          {[]string{"--concurrency", "many"}, 0, exitUsage},
		"a password in a flag":   {[]string{"--redis", "http://:password@127.0.0.1"}, 0, exitUsage},
		"SIGTERM":                {nil, syscall.SIGTERM, exitOK},
		"SIGHUP":                 {nil, syscall.SIGHUP, exitRestart},
		"SIGTERM of --dev":       {[]string{"--dev"}, syscall.SIGTERM, exitOK},
		"SIGTERM of a dashboard": {[]string{"dashboard"}, syscall.SIGTERM, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, sender := newRedis(t)
			addr := freeAddr(t)
			p, _ := unread(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=cat", "TURNSTILE_HTTP_ADDR=" + addr}, c.args...)
			if c.signal != 0 {
				expect.Soon(t, "the service", func() bool { return httpd.HealthCheck(t.Context(), addr) == nil })
				if !slices.Contains(c.args, "dashboard") {
					reply(t, sender, "a", "hello")
				}
				p.Signal(c.signal)
			}
			expect.Equal(t, "exit code", p.ExitCode(), c.code)
		})
	}
}
