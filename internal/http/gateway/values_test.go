package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
)

// payee waits for a payment and replies with it.
type payee struct{ began chan string }

func (p payee) Run(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	value, err := turn.Wait(ctx, agent.Wait{Key: "payment/42", Begin: func(_ context.Context, secret string) error {
		p.began <- secret
		return nil
	}})
	return agent.Result{Text: string(value)}, err
}

// A program with the wait's secret, or a token that may control, gives the value, once.
func TestValues(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[
		{"name": "bot", "sha256": "SUM", "sessions": ["s*"], "may": ["send", "read"]},
		{"name": "ops", "sha256": "SUM", "sessions": ["*"], "may": ["control"]},
		{"name": "eye", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}]`)).as("bot")
	p := payee{make(chan string, 10)}
	w, err := worker.New(acl.Client(t, acl.Worker), p, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })

	const at = "/v1/sessions/s/answers/payment%2F42"
	r.call("POST", at, object{"value": 1, "secret": "x"}).problem(409, gateway.NoWait)
	r.call("POST", "/v1/sessions/s/messages", object{"text": "hello"}).want(202)
	secret := expect.Received(t, "the secret", p.began)
	var view struct {
		WaitsFor string `json:"waits_for"`
	}
	expect.OK(t, json.Unmarshal([]byte(r.call("GET", "/v1/sessions/s", nil).want(200).text), &view))
	expect.Equal(t, "waits for", view.WaitsFor, "payment/42")

	r.as("eye").call("POST", at, object{"value": 1, "secret": secret}).problem(403, gateway.Forbidden)
	r.call("POST", at, object{"value": 1}).problem(403, gateway.Forbidden)
	r.call("POST", at, object{"value": 1, "secret": secret + "0"}).problem(403, gateway.Forbidden)
	r.call("POST", at, object{"secret": secret}).problem(400, gateway.InvalidRequest)
	r.call("POST", "/v1/sessions/t/answers/a", object{"value": 1, "secret": secret}).problem(404, gateway.UnknownSession)
	r.call("POST", "/v1/sessions/s/answers/other", object{"value": 1, "secret": secret}).problem(409, gateway.NoWait)
	r.call("POST", at, object{"value": object{"paid": true}, "secret": secret}).want(200)

	r.call("POST", "/v1/sessions/s2/messages", object{"text": "hello"}).want(202)
	expect.Received(t, "the other turn's secret", p.began)
	second := "/v1/sessions/s2/answers/payment%2F42"
	r.call("POST", second, object{"value": 1, "secret": secret}).problem(403, gateway.Forbidden) // of another turn
	r.as("ops").call("POST", second, object{"value": 1}).want(200)
}

// An agent's own error text is for operators only, in outcomes, sessions and events.
func TestDetailsAreForOperators(t *testing.T) {
	t.Parallel()
	users := newRig(t, withTokens(t, threeTokens))
	users.worker()
	users.token = "web"
	const path, detail = "/v1/sessions/web:1", "echo: told to fail"
	posted := users.call("POST", path+"/messages", object{"text": "fail=final"}, header("Prefer", "wait=60"), header("Idempotency-Key", "m"))
	posted.want(200)
	contains(t, "the outcome", posted.text, `"error":"the agent failed","code":"agent_failed"`)
	again := users.call("POST", path+"/messages", object{"text": "fail=final"}, header("Idempotency-Key", "m"))
	for _, text := range []string{posted.text, again.want(200).text, users.call("GET", path+"/messages/m", nil).text, users.call("GET", path, nil).text} {
		if strings.Contains(text, "detail") || strings.Contains(text, detail) {
			t.Errorf("users learn: %s", text)
		}
	}
	operators := users.as("root")
	for _, text := range []string{operators.call("GET", path+"/messages/m", nil).text, operators.call("GET", path, nil).text} {
		contains(t, "for operators", text, `"detail":"`+detail+`"`)
	}
	contains(t, "the dead letters", operators.call("GET", "/v1/dead?session=web:1", nil).text, `"error":"`+detail+`"`)
	for r, want := range map[*rig]string{users: "", operators: detail} {
		s := r.stream("web:1", "")
		for {
			e := expect.Received(t, "an event", s.events)
			if e.Type == session.EventTurnEnded {
				expect.List(t, "the event", []string{e.Error, e.Detail}, "the agent failed", want)
				break
			}
		}
	}
}
