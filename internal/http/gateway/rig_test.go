package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/store"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// The test binary is also the gateway that is killed.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		program.RunJob(text, job.run)
	}
	if text := os.Getenv(requestChildVariable); text != "" {
		program.RunJob(text, requestJob.run)
	}
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// rig is a gateway on the test's own database. Each request and each response is compared with the
// OpenAPI document.
type rig struct {
	*testing.T
	gateway *gateway.Gateway
	redis   redis.UniversalClient // the test's own
	url     string
	token   string // of its requests, "" for none
}

// newRig starts a gateway.
func newRig(t *testing.T, change ...func(*gateway.Config)) *rig {
	t.Helper()
	r := rigOn(t, acl.Client(t, acl.Gateway), change...)
	r.redis = redistest.New(t)
	return r
}

func rigOn(t *testing.T, rdb redis.UniversalClient, change ...func(*gateway.Config)) *rig {
	t.Helper()
	return rigWith(t, rdb, func(*gateway.Deps) {}, change...)
}

func rigWith(t *testing.T, rdb redis.UniversalClient, with func(*gateway.Deps), change ...func(*gateway.Config)) *rig {
	t.Helper()
	var c gateway.Config
	for _, f := range change {
		f(&c)
	}
	d := gateway.Deps{
		Client: turnstile.NewClient(rdb), Admin: admin.NewClient(rdb), Store: store.New(rdb), Logger: slog.New(slog.DiscardHandler),
		Ping: func(ctx context.Context) error { return rdb.Ping(ctx).Err() },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte("up 1\n"))
		}),
	}
	with(&d)
	if d.Destinations != nil {
		d.Client = turnstile.NewClient(rdb, turnstile.ClientConfig{DefaultReplyTo: d.Destinations.Default})
	}
	g := gateway.New(c, d)
	url := served(t, g)
	t.Cleanup(func() { _ = g.Stop(context.Background()) })
	return &rig{T: t, gateway: g, redis: rdb, url: url}
}

// served is the URL of a server with this handler.
func served(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// worker runs echo's turns.
func (r *rig) worker() { r.workerOf(echo.New()) }

func (r *rig) workerOf(a agent.Agent) {
	r.Helper()
	rdb := r.redis
	if rdb == redistest.New(r.T) {
		rdb = acl.Client(r.T, acl.Worker)
	}
	w, err := worker.New(rdb, a, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	expect.OK(r, err)
	expect.OK(r, w.Start(context.Background()))
	r.Cleanup(func() { _ = w.Stop(expect.Ended()) })
}

// as is the rig with another token.
func (r *rig) as(token string) *rig {
	other := *r
	other.token = token
	return &other
}

// answer is a response with its body.
type answer struct {
	*http.Response
	t    *testing.T
	text string
}

// edit changes a request.
type edit func(*http.Request)

func header(name, value string) edit {
	return func(r *http.Request) {
		if name == "Host" {
			r.Host = value
			return
		}
		r.Header.Set(name, value)
	}
}

// call sends a request. A body that is no string or nil is sent as JSON.
func (r *rig) call(method, path string, body any, edits ...edit) answer {
	r.Helper()
	var sent []byte
	switch b := body.(type) {
	case nil:
	case string:
		sent = []byte(b)
	default:
		var err error
		sent, err = json.Marshal(b)
		expect.OK(r, err)
	}
	request, err := http.NewRequestWithContext(r.Context(), method, r.url+path, bytes.NewReader(sent))
	expect.OK(r, err)
	if len(sent) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	for _, e := range edits {
		e(request)
	}
	response, err := http.DefaultClient.Do(request)
	expect.OK(r, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	expect.OK(r, err)
	request.Body = io.NopCloser(bytes.NewReader(sent))
	response.Body = io.NopCloser(bytes.NewReader(text))
	checkContract(r.T, request, response)
	return answer{response, r.T, string(text)}
}

// want fails the test unless the response has the status, and reads its JSON.
func (a answer) want(status int, into ...any) answer {
	a.t.Helper()
	if a.StatusCode != status {
		a.t.Fatalf("%s %s: %s, want %d\n%s", a.Request.Method, a.Request.URL.Path, a.Status, status, a.text)
	}
	for _, v := range into {
		if err := json.Unmarshal([]byte(a.text), v); err != nil {
			a.t.Fatalf("%s %s: %v\n%s", a.Request.Method, a.Request.URL.Path, err, a.text)
		}
	}
	return a
}

// problem fails the test unless the response is this problem.
func (a answer) problem(status int, code gateway.Code) gateway.Problem {
	a.t.Helper()
	var p gateway.Problem
	a.want(status, &p)
	if p.Code != code || p.Status != status || a.Header.Get("Content-Type") != "application/problem+json" {
		a.t.Errorf("%s %s: %s %s, want %s", a.Request.Method, a.Request.URL.Path, a.Header.Get("Content-Type"), a.text, code)
	}
	if p.RequestID == "" || p.RequestID != a.Header.Get("X-Request-Id") {
		a.t.Errorf("request id %q in the body, %q in the header", p.RequestID, a.Header.Get("X-Request-Id"))
	}
	return p
}

type object map[string]any

// say sends a message and returns its outcome.
func (r *rig) say(sessionKey, text string) (reply string) {
	r.Helper()
	var o struct{ Reply string }
	r.call("POST", "/v1/sessions/"+sessionKey+"/messages", object{"text": text}, header("Prefer", "wait=60")).want(200, &o)
	return o.Reply
}

// withTokens makes a gateway with a tokens file, in which the secret of each token is its name.
func withTokens(t *testing.T, tokens string) func(*gateway.Config) {
	t.Helper()
	loaded, err := gateway.LoadTokens(tokensFile(t, tokens))
	expect.OK(t, err)
	return func(c *gateway.Config) { c.Tokens = loaded }
}

func contains(t *testing.T, what, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s: %q lacks %q", what, text, part)
	}
}
