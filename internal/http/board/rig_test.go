package board_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"turnstile"
	"turnstile/internal/http/board"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/store"
	"turnstile/internal/outbox"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestMain(m *testing.M) {
	redisconn.LogTo(slog.New(slog.DiscardHandler))
	expect.AtOnce(4)
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// rig is a gateway with its board, on the test's own database.
type rig struct {
	*testing.T
	redis   redis.UniversalClient
	client  *turnstile.Client
	gateway *gateway.Gateway
	url     string
	http    *http.Client // with a browser's cookies
	workers int          // started so far
	kind    string       // of the next worker's agent
	tokens  string       // the file
}

// newRig starts a gateway with these tokens; nil for none.
func newRig(t *testing.T, tokens ...token) *rig {
	t.Helper()
	return newRigTo(t, nil, tokens...)
}

// newRigTo is newRig with destinations.
func newRigTo(t *testing.T, destinations *outbox.File, tokens ...token) *rig {
	t.Helper()
	rdb := acl.Client(t, acl.Gateway)
	client, operator, log := turnstile.NewClient(rdb, turnstile.ClientConfig{DefaultReplyTo: destinations.Default}), admin.NewClient(rdb), slog.New(slog.NewTextHandler(t.Output(), nil))
	c, file := gateway.Config{}, ""
	if len(tokens) > 0 {
		var err error
		file = tokensFile(t, tokens...)
		c.Tokens, err = gateway.LoadTokens(file)
		expect.OK(t, err)
	}
	g := gateway.New(c, gateway.Deps{Client: client, Admin: operator, Store: store.New(rdb), Destinations: destinations, Logger: log})
	g.Mount("/board/", board.New(g, board.Deps{Client: client, Admin: operator, Asynqmon: "/asynqmon/", Logger: log}))
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		_ = g.Stop(context.Background())
		server.CloseClientConnections()
		server.Close()
	})
	jar, err := cookiejar.New(nil)
	expect.OK(t, err)
	return &rig{T: t, redis: rdb, client: client, gateway: g, url: server.URL, http: &http.Client{Jar: jar}, tokens: file}
}

// token is an entry of a tokens file. Its secret is its name.
type token struct {
	Name     string   `json:"name"`
	SHA256   string   `json:"sha256"`
	Sessions []string `json:"sessions"`
	May      []string `json:"may"`
}

var (
	boss   = token{Name: "boss", Sessions: []string{"*"}, May: []string{"send", "read", "control", "operate"}}
	reader = token{Name: "reader", Sessions: []string{"web:*"}, May: []string{"read"}}
	sender = token{Name: "sender", Sessions: []string{"web:*"}, May: []string{"read", "send"}}
	writer = token{Name: "writer", Sessions: []string{"web:*"}, May: []string{"send"}} // may not read
)

func tokensFile(t *testing.T, tokens ...token) string {
	t.Helper()
	for i := range tokens {
		sum := sha256.Sum256([]byte(tokens[i].Name))
		tokens[i].SHA256 = hex.EncodeToString(sum[:])
	}
	data, err := json.Marshal(tokens)
	expect.OK(t, err)
	path := filepath.Join(t.TempDir(), "tokens.json")
	expect.OK(t, os.WriteFile(path, data, 0o600))
	return path
}

// worker runs echo's turns.
func (r *rig) worker() {
	r.Helper()
	r.workerOf(echo.New())
}

// workerOf runs an agent's turns until the test's end.
func (r *rig) workerOf(a agent.Agent) {
	r.Helper()
	r.parking(a, 0, 0)
}

// parking is workerOf for a worker that parks turns so soon, whose questions wait so long. 0: the defaults.
func (r *rig) parking(a agent.Agent, after, timeout time.Duration) {
	r.Helper()
	r.workers++
	w, err := worker.New(acl.Client(r.T, acl.Worker), a, worker.Config{
		Name: fmt.Sprintf("worker-%d", r.workers), AgentName: r.kind, Logger: slog.New(slog.DiscardHandler), ParkAfter: after, AskTimeout: timeout, RetryBackoff: time.Hour,
	})
	expect.OK(r, err)
	expect.OK(r, w.Start(context.Background()))
	r.Cleanup(func() { _ = w.Stop(expect.Ended()) })
}

// send sends a message, by the library.
func (r *rig) send(key, text string, opts ...actors.Option) string {
	r.Helper()
	receipt, err := r.client.Session(key).Send(r.Context(), actors.With(turnstile.Message{Text: text}, opts...))
	expect.OK(r, err)
	return receipt.ID
}

// say sends a message and waits for its end.
func (r *rig) say(key, text string) session.Outcome {
	r.Helper()
	o, err := r.client.Session(key).Wait(r.Context(), r.send(key, text))
	expect.OK(r, err)
	return o
}

// page is a response with its text.
type page struct {
	*http.Response
	text string
}

// get reads a page.
func (r *rig) get(path string) page {
	r.Helper()
	return r.request(http.MethodGet, path, nil)
}

// post sends a form, as a page of the board does.
func (r *rig) post(path string, form url.Values) page {
	r.Helper()
	return r.request(http.MethodPost, path, form)
}

func (r *rig) request(method, path string, form url.Values, headers ...string) page {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), method, r.url+path, strings.NewReader(form.Encode()))
	expect.OK(r, err)
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", r.url)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := r.http.Do(request)
	expect.OK(r, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	expect.OK(r, err)
	return page{response, string(text)}
}

// login logs in with a token.
func (r *rig) login(name string) page {
	r.Helper()
	return r.post("/board/login", url.Values{"token": {name}})
}

// has fails the test unless the page has the status and these texts.
func (r *rig) has(p page, status int, parts ...string) {
	r.Helper()
	if p.StatusCode != status {
		r.Fatalf("%s %s: %s, want %d\n%s", p.Request.Method, p.Request.URL, p.Status, status, p.text)
	}
	for _, part := range parts {
		if !strings.Contains(p.text, part) {
			r.Errorf("%s %s lacks %q\n%s", p.Request.Method, p.Request.URL, part, p.text)
		}
	}
}

func (r *rig) lacks(p page, parts ...string) {
	r.Helper()
	for _, part := range parts {
		if strings.Contains(p.text, part) {
			r.Errorf("%s %s has %q", p.Request.Method, p.Request.URL, part)
		}
	}
}
