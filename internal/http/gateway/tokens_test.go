package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/agent"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

var nameAndSum = regexp.MustCompile(`"name": "([^"]*)", "sha256": "SUM"`)

// tokensFile writes a file of tokens. SUM is the sum of the token's name.
func tokensFile(t *testing.T, tokens string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	writeTokens(t, path, tokens)
	return path
}

func writeTokens(t *testing.T, path, tokens string) {
	t.Helper()
	text := nameAndSum.ReplaceAllStringFunc(tokens, func(match string) string {
		sum := sha256.Sum256([]byte(nameAndSum.FindStringSubmatch(match)[1]))
		return strings.ReplaceAll(match, "SUM", hex.EncodeToString(sum[:]))
	})
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

const threeTokens = `[
	{"name": "web", "sha256": "SUM", "sessions": ["web:*"], "new": "web:", "may": ["send", "read"]},
	{"name": "eye", "sha256": "SUM", "sessions": ["web:*", "one"], "may": ["read"]},
	{"name": "root", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control", "operate"]}]`

func TestTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, threeTokens))
	const mine, other = "/v1/sessions/web:1/messages", "/v1/sessions/telegram:1/messages"
	body := object{"text": "hi"}
	for _, c := range []struct {
		token, method, path string
		body                any
		status              int
		code                gateway.Code
	}{
		{"", "POST", mine, body, 401, gateway.Unauthorized},
		{"wrong", "POST", mine, body, 401, gateway.Unauthorized},
		{"", "GET", "/metrics", nil, 401, gateway.Unauthorized},
		{"web", "GET", "/metrics", nil, 403, gateway.Forbidden},
		{"web", "POST", other, body, 404, gateway.UnknownSession},
		{"web", "GET", "/v1/sessions/telegram:1", nil, 404, gateway.UnknownSession},
		{"web", "GET", "/v1/sessions/telegram:1/events", nil, 404, gateway.UnknownSession},
		{"web", "POST", "/v1/tickets", object{"session": "telegram:1"}, 404, gateway.UnknownSession},
		{"root", "GET", "/v1/sessions/telegram:1", nil, 404, gateway.UnknownSession}, // like one that does not exist
		{"eye", "POST", mine, body, 403, gateway.Forbidden},
		{"web", "POST", "/v1/sessions/web:1/stop", nil, 403, gateway.Forbidden},
		{"web", "DELETE", "/v1/sessions/web:1", nil, 403, gateway.Forbidden},
		{"web", "GET", "/v1/dead", nil, 403, gateway.Forbidden},
		{"eye", "POST", "/v1/sessions/one/approve", object{"question": "t.1"}, 403, gateway.Forbidden},
	} {
		r.as(c.token).call(c.method, c.path, c.body).problem(c.status, c.code)
	}
	expect.Equal(t, "scheme", r.call("GET", "/v1/dead", nil).Header.Get("WWW-Authenticate"), `Bearer realm="Turnstile"`)
	r.as("web").call("POST", mine, body).want(202)
	r.as("root").call("POST", other, body).want(202)
	r.as("root").call("GET", "/metrics", nil).want(200)
	r.as("root").call("POST", mine, body, header("Authorization", "bearer  root ")).want(202)
	r.call("GET", "/openapi.yaml", nil).want(200)
}

func TestReload(t *testing.T) {
	t.Parallel()
	path := tokensFile(t, threeTokens)
	tokens, err := gateway.LoadTokens(path)
	expect.OK(t, err)
	r := newRig(t, func(c *gateway.Config) { c.Tokens = tokens })
	web, eye := r.as("web").stream("web:1", ""), r.as("eye").stream("web:1", "")
	writeTokens(t, path, `[{"name": "web"`)
	if r.gateway.Reload() == nil {
		t.Error("a broken file was read")
	}
	r.as("eye").call("GET", "/v1/sessions/one/messages/x", nil).problem(404, gateway.UnknownMessage)
	writeTokens(t, path, `[{"name": "web", "sha256": "SUM", "sessions": ["web:*"], "may": ["read"]}]`)
	expect.OK(t, r.gateway.Reload())
	<-eye.done // its token is gone
	r.as("eye").call("GET", "/v1/sessions/one/messages/x", nil).problem(401, gateway.Unauthorized)
	r.as("web").call("POST", "/v1/sessions/web:1/messages", object{"text": "x"}).problem(403, gateway.Forbidden)
	select {
	case <-web.done:
		t.Error("a stream was ended that is still allowed")
	default:
	}
}

func TestBadTokens(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[]`:           "it has no token",
		`{}`:           "cannot unmarshal object",
		`[{"nme": 1}]`: "unknown fields [0].nme",
		`[{"name": "a b", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}]`:                                                                   "name: invalid",
		`[{"name": "a", "sha256": "12", "sessions": ["*"], "may": ["read"]}]`:                                                                      "sha256 is not 64 hex digits",
		`[{"name": "foo", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}]`:                                                                   "a secret that everybody knows",
		`[{"name": "a", "sha256": "SUM", "sessions": [], "may": ["read"]}]`:                                                                        "sessions is empty",
		`[{"name": "a", "sha256": "SUM", "sessions": ["a/b"], "may": ["read"]}]`:                                                                   `pattern "a/b"`,
		`[{"name": "a", "sha256": "SUM", "sessions": [""], "may": ["read"]}]`:                                                                      `pattern ""`,
		`[{"name": "a", "sha256": "SUM", "sessions": ["*"], "may": []}]`:                                                                           "may is empty",
		`[{"name": "a", "sha256": "SUM", "sessions": ["*"], "may": ["rule"]}]`:                                                                     `"rule" is unknown`,
		`[{"name": "a", "sha256": "SUM", "sessions": ["b:*"], "new": "a:", "may": ["send"]}]`:                                                      "no pattern of sessions matches a:*",
		`[{"name": "a", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}, {"name": "a", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}]`: "token 2 (a)",
	} {
		_, err := gateway.LoadTokens(tokensFile(t, text))
		if err == nil {
			t.Errorf("%s was read", text)
			continue
		}
		contains(t, text, err.Error(), want)
	}
	if _, err := gateway.LoadTokens("/no/such/file"); err == nil {
		t.Error("a missing file was read")
	}
}

// A ticket opens one stream, once.
func TestTickets(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, threeTokens))
	var got struct {
		Ticket    string
		ExpiresIn int `json:"expires_in"`
	}
	fetch := func() string {
		t.Helper()
		r.as("web").call("POST", "/v1/tickets", object{"session": "web:1"}).want(201, &got)
		return "?ticket=" + got.Ticket
	}
	events := r.url + "/v1/sessions/web:1/events"
	ticket := fetch()
	expect.Equal(t, "life", got.ExpiresIn, 60)
	for _, key := range r.redis.Keys(t.Context(), "turnstile:ticket:*").Val() {
		if strings.Contains(key, got.Ticket) {
			t.Errorf("Redis has the ticket: %s", key)
		}
		if ttl := r.redis.TTL(t.Context(), key).Val().Seconds(); ttl <= 0 || ttl > 60 {
			t.Errorf("it lives for %vs", ttl)
		}
	}
	if s, a := r.open(events + ticket); s == nil {
		t.Fatalf("stream: %s", a.Status)
	}
	r.call("GET", "/v1/sessions/web:1/events"+ticket, nil).problem(401, gateway.Unauthorized)
	r.call("GET", "/v1/sessions/web:2/events"+fetch(), nil).problem(401, gateway.Unauthorized)
	r.call("GET", "/v1/sessions/web:1/transcript"+fetch(), nil).problem(401, gateway.Unauthorized)
	r.call("GET", "/v1/sessions/web:1/events?ticket=", nil).problem(401, gateway.Unauthorized)
	r.as("web").call("POST", "/v1/tickets", object{"session": "a/b"}).problem(400, gateway.InvalidRequest)
}

// A ticket, and a wait for an outcome, end with the secret of their token.
func TestRotatedTokens(t *testing.T) {
	t.Parallel()
	path := tokensFile(t, threeTokens)
	tokens, err := gateway.LoadTokens(path)
	expect.OK(t, err)
	r := newRig(t, func(c *gateway.Config) { c.Tokens = tokens })
	var got struct{ Ticket string }
	r.as("web").call("POST", "/v1/tickets", object{"session": "web:1"}).want(201, &got)
	const message = "/v1/sessions/web:1/messages"
	r.as("web").call("POST", message, object{"text": "hi"}, header("Idempotency-Key", "m")).want(202)
	waits := []func() answer{
		func() answer { return r.as("web").call("GET", message+"/m?wait=60s", nil) },
		func() answer {
			return r.as("web").call("POST", message, object{"text": "hi"}, header("Idempotency-Key", "m"), header("Prefer", "wait=60"))
		},
	}
	answers := make(chan answer, len(waits))
	for _, wait := range waits {
		go func() { answers <- wait() }()
	}
	expect.Soon(t, "both waits", func() bool { return r.gateway.OpenWaits() == len(waits) })
	writeTokens(t, path, strings.Replace(threeTokens, `"name": "web", "sha256": "SUM"`, `"name": "web", "sha256": "`+strings.Repeat("ab", 32)+`"`, 1))
	expect.OK(t, r.gateway.Reload())
	for range waits {
		expect.Received(t, "the end of a wait", answers).problem(401, gateway.Unauthorized)
	}
	expect.Equal(t, "waits", r.gateway.OpenWaits(), 0)
	r.call("GET", "/v1/sessions/web:1/events?ticket="+got.Ticket, nil).problem(401, gateway.Unauthorized)
}

// A wait or stream ends when its token loses a permission on which its content depends, as details do on
// operate. One about any session ends with any change of the token's sessions.
func TestNarrowedTokens(t *testing.T) {
	t.Parallel()
	const before = `[{"name": "a", "sha256": "SUM", "sessions": ["*"], "new": "a:", "may": ["send", "read", "operate"]},
		{"name": "b", "sha256": "SUM", "sessions": ["b:*", "c:*"], "new": "b:", "may": ["send", "read"]}]`
	path := tokensFile(t, before)
	tokens, err := gateway.LoadTokens(path)
	expect.OK(t, err)
	r := newRig(t, func(c *gateway.Config) { c.Tokens = tokens })
	operators := []*stream{r.as("a").stream("b:1", ""), r.as("a").all("a", "")}
	same := r.as("b").stream("b:1", "")
	ends := make(chan answer, 3)
	for path, token := range map[string]string{"/v1/sessions/b:1/messages": "a", "/v1/messages": "a", "/v1/messages?": "b"} {
		go func() { ends <- r.as(token).call("POST", path, object{"text": "hi"}, header("Prefer", "wait=60")) }()
	}
	expect.Soon(t, "the waits", func() bool { return r.gateway.OpenWaits() == cap(ends) })
	writeTokens(t, path, strings.NewReplacer(`, "operate"`, "", `, "c:*"`, "").Replace(before))
	expect.OK(t, r.gateway.Reload())
	for range cap(ends) {
		expect.Received(t, "the end of a wait", ends).problem(401, gateway.Unauthorized)
	}
	for _, s := range operators {
		for e := s.next(); e.retry == ""; e = s.next() { // it must come back, with the changed token
		}
		<-s.done
	}
	select {
	case <-same.done:
		t.Error("a stream was ended that has what it began with")
	default:
	}
}

// Metrics count all sessions.
func TestMetricsNeedAllSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[{"name": "some", "sha256": "SUM", "sessions": ["web:*"], "may": ["operate"]},
		{"name": "all", "sha256": "SUM", "sessions": ["web:*", "*"], "may": ["operate"]}]`))
	r.as("some").call("GET", "/metrics", nil).problem(403, gateway.Forbidden)
	r.as("all").call("GET", "/metrics", nil).want(200)
}

// What an autoscaler reads: one session runs, and another one waits for the only slot. Those that have ended do not
// count, and a broken one stops nobody.
func TestScale(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	began, end := make(chan struct{}, 2), make(chan struct{})
	w, err := worker.New(r.redis, agent.Func(func(context.Context, *agent.Turn) (agent.Result, error) {
		began <- struct{}{}
		<-end
		return agent.Result{Text: "done"}, nil
	}), worker.Config{Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	type load struct {
		Slots, Running, Waiting int
		Wanted                  int `json:"wanted_slots"`
	}
	type scale struct {
		load
		Oldest float64 `json:"oldest_wait_seconds"`
		Agents map[string]load
	}
	soon := func(what string, want load) (got scale) {
		expect.Soon(t, what, func() bool {
			got = scale{}
			expect.OK(t, json.Unmarshal([]byte(r.call("GET", "/scale", nil).want(200).text), &got))
			return got.load == want && got.Agents["default"] == want
		})
		return got
	}
	soon("a free slot", load{Slots: 1})
	r.call("POST", "/v1/sessions/s1/messages", map[string]string{"text": "hello"}).want(202)
	expect.Received(t, "the first turn", began)
	r.call("POST", "/v1/sessions/s2/messages", map[string]string{"text": "hello"}).want(202)
	if got := soon("the load", load{Slots: 1, Running: 1, Waiting: 1, Wanted: 2}); got.Oldest < 0 || len(got.Agents) != 1 {
		t.Errorf("the load: %+v", got)
	}
	expect.OK(t, r.redis.Set(t.Context(), rediskey.For("broken").Record(), "x", time.Minute).Err())
	expect.OK(t, r.redis.ZAdd(t.Context(), rediskey.Owned, redis.Z{Score: 1e18, Member: "broken"}).Err())
	close(end)
	soon("nothing left", load{Slots: 1})
}
