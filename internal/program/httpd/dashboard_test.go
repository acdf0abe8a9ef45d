package httpd

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"turnstile/test/redistest"
)

// enqueue enqueues one task in a session's queue.
func enqueue(t *testing.T, url, queue, payload string) {
	t.Helper()
	client := asynq.NewClient(connOpt(url))
	defer client.Close()
	if _, err := client.EnqueueContext(t.Context(), asynq.NewTask("turnstile:message", []byte(payload)), asynq.Queue(queue)); err != nil {
		t.Fatal(err)
	}
}

const queue = "session:agent:main:telegram:dm:42"

func TestDashboardShowsSessions(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	payload := `{"v":1,"text":"Grüße\nan <alle>"}`
	enqueue(t, url, queue, payload)
	s := start(t, valid(t, url))

	if r, _ := ask(t, s, "GET", "/"); r.StatusCode != http.StatusFound || r.Header.Get("Location") != "/asynqmon" {
		t.Errorf("/ redirects with %s to %s", r.Status, r.Header.Get("Location"))
	}
	for _, path := range []string{"/asynqmon", "/asynqmon/", "/asynqmon/queues/" + queue} {
		if body := want(t, s, 200, "GET", path); !strings.Contains(body, "<html") {
			t.Errorf("%s is no page: %.80s", path, body)
		}
	}
	if body := want(t, s, 200, "GET", "/asynqmon/api/queues"); !strings.Contains(body, `"queue":"`+queue+`"`) {
		t.Errorf("queues: %s", body)
	}
	var pending struct {
		Tasks []struct{ Payload string } `json:"tasks"`
	}
	if err := json.Unmarshal([]byte(want(t, s, 200, "GET", "/asynqmon/api/queues/"+queue+"/pending_tasks")), &pending); err != nil {
		t.Fatal(err)
	}
	if len(pending.Tasks) != 1 || pending.Tasks[0].Payload != payload {
		t.Errorf("pending: %+v", pending)
	}
	r, _ := ask(t, s, "GET", "/asynqmon")
	if r.Header.Get("X-Frame-Options") != "DENY" || r.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("headers: %v", r.Header)
	}
}

func TestDashboardReadOnlyUnlessAllowed(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	enqueue(t, url, queue, "{}")
	pause := "/asynqmon/api/queues/" + queue + ":pause"

	readonly := start(t, valid(t, url))
	want(t, readonly, 405, "POST", pause)
	want(t, readonly, 405, "DELETE", "/asynqmon/api/queues/"+queue)
	c := valid(t, url)
	c.Write = true
	writable := start(t, c)
	paused := redistest.New(t).Exists(t.Context(), "asynq:{"+queue+"}:paused")
	if paused.Val() != 0 {
		t.Fatal("it is paused already")
	}

	// A foreign page in the same browser.
	for _, edits := range [][]func(*http.Request){
		{header("Sec-Fetch-Site", "cross-site")},
		{header("Sec-Fetch-Site", "same-site")},
		{header("Origin", "http://evil.example")},
		{header("Origin", "null")},
		{host("evil.example"), header("Origin", "http://evil.example")},
		{host("evil.example:8080"), header("Sec-Fetch-Site", "same-origin")},
	} {
		want(t, writable, 403, "POST", pause, edits...)
		want(t, writable, 403, "DELETE", "/asynqmon/api/queues/"+queue, edits...)
	}
	want(t, writable, 403, "GET", "/asynqmon/api/queues", host("evil.example"))
	want(t, writable, 403, "GET", "/asynqmon/api/queues", host("127.0.0.1.evil.example"))
	if n := redistest.New(t).Exists(t.Context(), "asynq:{"+queue+"}:paused").Val(); n != 0 {
		t.Fatal("a foreign page paused the queue")
	}

	want(t, writable, 204, "POST", pause, header("Sec-Fetch-Site", "same-origin"), host("localhost:8080"))
	if n := redistest.New(t).Exists(t.Context(), "asynq:{"+queue+"}:paused").Val(); n != 1 {
		t.Error("the queue is not paused")
	}
	for _, name := range []string{"localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:1", "[::1]"} {
		want(t, writable, 200, "GET", "/asynqmon/api/queues", host(name))
	}
}

func TestDashboardToken(t *testing.T) {
	t.Parallel()
	c := valid(t, redistest.URL(t))
	c.Addr, c.Token = "0.0.0.0:0", "right"
	s := start(t, c)
	const path = "/asynqmon/api/queues"
	basic := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	for _, edit := range []func(*http.Request){
		header("Authorization", "Bearer right"),
		header("Authorization", "bearer right"),
		basic("", "right"), basic("anybody", "right"),
	} {
		want(t, s, 200, "GET", path, edit, host("turnstile.example"))
	}
	for _, edit := range []func(*http.Request){
		header("X", "no header at all"),
		header("Authorization", "Bearer wrong"),
		header("Authorization", "Bearer "),
		header("Authorization", "Bearer"),
		header("Authorization", "right"),
		basic("right", ""), basic("", "wrong"), basic("", "right "),
	} {
		want(t, s, 401, "GET", path, edit)
		want(t, s, 401, "GET", "/asynqmon", edit)
	}
	if r, _ := ask(t, s, "GET", path); len(r.Header.Values("WWW-Authenticate")) != 2 {
		t.Errorf("headers %v", r.Header)
	}
	want(t, s, 200, "GET", "/healthz")
	want(t, s, 200, "GET", "/readyz")
}

// Agents' programs can reach loopback: if there may be any, the dashboard refuses every request
// without a token, even if it is read-only. Probes and metrics are still served.
func TestDashboardIsClosedToPrograms(t *testing.T) {
	t.Parallel()
	for _, write := range []bool{false, true} {
		c := valid(t, redistest.URL(t))
		c.Programs, c.Write = true, write
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })
		s := start(t, c)
		for _, path := range []string{"/asynqmon", "/asynqmon/", "/asynqmon/api/queues", "/asynqmon/api/%71ueues"} {
			for _, method := range []string{"GET", "POST", "DELETE"} {
				if body := want(t, s, 403, method, path); !strings.Contains(body, "TURNSTILE_HTTP_TOKEN") {
					t.Errorf("%s %s: it does not say what to do: %s", method, path, body)
				}
			}
		}
		for _, path := range []string{"/metrics", "/healthz", "/readyz"} {
			want(t, s, 200, "GET", path)
		}
		c.Token = "right"
		s = start(t, c)
		want(t, s, 401, "GET", "/asynqmon")
		want(t, s, 200, "GET", "/asynqmon", header("Authorization", "Bearer right"))
	}
}

// The metrics are protected like the dashboard. Without metrics there is no page.
func TestMetricsAreGuarded(t *testing.T) {
	t.Parallel()
	c := valid(t, redistest.URL(t))
	want(t, start(t, c), 404, "GET", "/metrics")
	c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })
	open := start(t, c)
	if body := want(t, open, 200, "GET", "/metrics"); body != "up 1\n" {
		t.Errorf("metrics: %q", body)
	}
	want(t, open, 403, "GET", "/metrics", host("evil.example"))
	want(t, open, 405, "POST", "/metrics")
	c.Addr, c.Token = "0.0.0.0:0", "right"
	closed := start(t, c)
	want(t, closed, 401, "GET", "/metrics")
	want(t, closed, 401, "GET", "/metrics", header("Authorization", "Bearer wrong"))
	want(t, closed, 200, "GET", "/metrics", header("Authorization", "Bearer right"), host("turnstile.example"))
}

// Guesses are in the log, and do not fill it. A browser's first request has no token.
func TestWrongTokensAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := valid(t, redistest.URL(t))
	c.Token, c.Logger = "right", slog.New(slog.NewTextHandler(&log, nil))
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(token string) {
		t.Helper()
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/asynqmon", nil)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if s.guarded(http.NotFoundHandler()).ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("status %d", w.Code)
		}
	}
	ask("")
	if log.Len() > 0 {
		t.Errorf("no token is no guess: %s", log.String())
	}
	const guesses = 1000
	for range guesses {
		ask("wrong")
	}
	if n := strings.Count(log.String(), "a request had a wrong token"); n < 10 || n > guesses/2 {
		t.Errorf("%d warnings", n)
	}
}

func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := &Server{config: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	h := s.recovering(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/asynqmon/x", nil))
	if w.Code != 500 || !strings.Contains(log.String(), "panic=boom") || !strings.Contains(log.String(), "path=/asynqmon/x") {
		t.Errorf("%d, log %s", w.Code, log.String())
	}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Error("http.ErrAbortHandler was swallowed")
		}
	}()
	s.recovering(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })).
		ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
}

func TestShow(t *testing.T) {
	t.Parallel()
	if got := show("", []byte("a\nb")); got != "a\nb" {
		t.Errorf("%q", got)
	}
	if got := show("", []byte{0xff}); got != "not text, 1 bytes" {
		t.Errorf("%q", got)
	}
	if got := show("", []byte("{\"text\":\"a\u202eb\u009b\"} \x1b")); got != "{\"text\":\"ab\uFFFD\"} \uFFFD" {
		t.Errorf("%q", got)
	}
	long := "x" + strings.Repeat("ü", maxShown)
	got := show("", []byte(long))
	cut, rest, _ := strings.Cut(got, " … ")
	if len(cut) < maxShown-1 || !strings.HasPrefix(long, cut) || rest != "16386 more bytes" {
		t.Errorf("%d bytes shown, then %q", len(cut), rest)
	}
}
