package openai_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// endless is an agent that says that it has begun, and how it ended.
func endless() (a agent.Agent, began, ended chan string) {
	began, ended = make(chan string, 10), make(chan string, 10)
	return agent.Func(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		if !strings.HasPrefix(turn.Text(), "long") {
			return agent.Result{Text: "re: " + turn.Text()}, nil
		}
		turn.Emit(agent.Event{Type: session.EventText, Text: "one "})
		began <- turn.Text()
		<-ctx.Done()
		ended <- turn.Text()
		return agent.Result{}, ctx.Err()
	}), began, ended
}

// A stop button closes the connection. Where nobody could fetch the response, or the client wants it, the message ends.
func TestStopButtons(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, began, ended := endless()
	r.workerOf(a)
	client := &http.Client{Transport: transport(t)}
	leave := func(path, body string, headers ...string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, strings.NewReader(body))
		expect.OK(t, err)
		request.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		gone := make(chan error, 1)
		go func() {
			response, err := client.Do(request)
			if err == nil {
				_, err = response.Body.Read(make([]byte, 1))
				<-ctx.Done()
				_ = response.Body.Close()
			}
			gone <- err
		}()
		expect.Received(t, "the turn began", began)
		cancel()
		if err := expect.Received(t, "the client left", gone); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path, body string
		headers    []string
	}{
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"long"}]}`, nil},
		{"/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"long"}]}`, nil},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"long"}]}`, []string{"X-Turnstile-Session", "c", "X-Turnstile-Temporary", "true"}},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"long"}]}`, []string{"X-Turnstile-Session", "c", "X-Turnstile-Leave", "stop"}},
		{"/v1/responses", `{"store":false,"input":"long"}`, nil},
		{"/v1/responses", `{"store":false,"stream":true,"input":"long"}`, nil},
		{"/v1/responses", `{"conversation":"c","input":"long"}`, []string{"X-Turnstile-Leave", "stop"}},
		{"/v1/responses", `{"conversation":"c","stream":true,"input":"long"}`, []string{"X-Turnstile-Leave", "stop"}},
		{"/v1/responses", `{"store":false,"input":"long"}`, []string{"X-Turnstile-Leave", "stop", "Idempotency-Key", "k"}},
	} {
		leave(c.path, c.body, c.headers...)
		expect.Equal(t, c.path+c.body, expect.Received(t, "the turn ended", ended), "long")
	}
	// The conversation goes on at once.
	status, _ := r.post("/v1/responses", `{"conversation":"c","input":"next"}`)
	expect.Equal(t, "status", status, http.StatusOK)

	// Others go on: somebody may fetch their responses.
	leave("/v1/responses", `{"input":"long 1"}`)
	leave("/v1/responses", `{"store":false,"input":"long 2"}`, "Idempotency-Key", "l")
	leave("/v1/chat/completions", `{"messages":[{"role":"user","content":"long 3"}]}`, "Idempotency-Key", "l")
	leave("/v1/responses", `{"conversation":"d","input":"long 4"}`)
	status, _ = r.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"after them"}]}`)
	expect.Equal(t, "status", status, http.StatusOK)
	select {
	case text := <-ended:
		t.Errorf("%s was cancelled", text)
	default:
	}
}

// What a gateway ends itself is not the client's leaving.
func TestDrainCancelsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, began, ended := endless()
	r.workerOf(a)
	g, url := r.gateway()
	failed := make(chan error, 1)
	go func() {
		client := r.at(url, option.WithMaxRetries(0))
		_, err := client.Chat.Completions.New(t.Context(), chat(sdk.UserMessage("long")))
		failed <- err
	}()
	expect.Received(t, "the turn began", began)
	expect.OK(t, g.Stop(t.Context()))
	r.refused(expect.Received(t, "the end", failed), http.StatusServiceUnavailable, "draining", "")
	select {
	case text := <-ended:
		t.Errorf("%s was cancelled", text)
	default:
	}
}

// Who may not control stops nothing of others.
func TestWhoMayLeave(t *testing.T) {
	t.Parallel()
	r := newRig(t, tokens(t, "web send read"))
	r.worker()
	for _, c := range []struct {
		body   string
		header []string
		status int
	}{
		{`{"conversation":"s","input":"x"}`, []string{"X-Turnstile-Leave", "stop"}, http.StatusForbidden},
		{`{"input":"x"}`, []string{"X-Turnstile-Leave", "stop"}, http.StatusOK},
		{`{"input":"x"}`, []string{"X-Turnstile-Leave", "go"}, http.StatusBadRequest},
		{`{"input":"x"}`, []string{"X-Turnstile-Temporary", "yes"}, http.StatusBadRequest},
		{`{"conversation":"s","input":"x"}`, []string{"X-Turnstile-Temporary", "true"}, http.StatusBadRequest},
	} {
		status, got := r.post("/v1/responses", c.body, append(c.header, "Authorization", "Bearer web")...)
		if status != c.status {
			t.Errorf("%s %s: %d %v", c.body, c.header, status, got["error"])
		}
	}
}

// A response that is not to be stored leaves nothing, and its outcome goes nowhere.
func TestResponsesThatAreNotStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	for _, c := range []struct {
		body   string
		header []string
		stored bool
	}{
		{`{"store":false,"input":"x"}`, nil, false},
		{`{"input":"x"}`, []string{"X-Turnstile-Temporary", "true"}, false},
		{`{"store":true,"input":"x"}`, nil, true},
		{`{"store":false,"background":true,"input":"x"}`, nil, true},
		{`{"store":false,"conversation":"s","input":"x"}`, nil, true},
	} {
		status, got := r.post("/v1/responses", c.body, c.header...)
		expect.Equal(t, "status", status, http.StatusOK)
		expect.Equal(t, c.body+": store", got["store"], any(c.stored))
		key := got["conversation"].(map[string]any)["id"].(string)
		_, err := r.redis.ZScore(t.Context(), rediskey.Temporary, key).Result()
		expect.Equal(t, c.body+": temporary", err == nil, !c.stored)
	}
	r.eraseAfter = 50e6
	r.gateway()
	left := func() (n int) {
		for _, err := range admin.NewClient(r.redis).Sessions(t.Context(), admin.Query{}) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		return n
	}
	expect.Soon(t, "the others are left", func() bool { return left() == 3 })
}
