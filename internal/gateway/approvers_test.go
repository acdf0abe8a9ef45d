package gateway_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"turnstile/internal/gateway"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
)

// A question with approvers is decided by one of them, and by nobody else: neither by the sender of the
// message nor by a token that may control, by no route.
func TestApprovers(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[
		{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control"]},
		{"name": "ops", "sha256": "SUM", "sessions": ["*"], "may": ["send"]},
		{"name": "eye", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}]`),
		func(c *gateway.Config) { c.AnyoneDecides = true }).as("bot")
	w, err := worker.New(acl.Client(t, acl.Worker), echo.New(), worker.Config{Approvers: []string{"ops/*"}, Logger: slog.New(slog.DiscardHandler)})
	expect.OK(t, err)
	expect.OK(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	const at = "/v1/sessions/s/"
	s := r.stream("s", "")
	ask := func() (question string) {
		t.Helper()
		r.call("POST", at+"messages", object{"text": "ask=rm done", "as": "alice"}).want(202)
		e := s.until(session.EventQuestionAsked)
		expect.List(t, "approvers in the event", e.Approvers, "ops/*")
		return e.Turn + "." + e.CallID
	}
	question := ask()
	for token, bodies := range map[string][]object{
		"bot": {{}, {"as": "alice"}, {"as": "carol"}, {"as": "ops"}}, "ops": {{}}, "eye": {{}, {"as": "carol"}},
	} {
		for _, body := range bodies {
			body["question"] = question
			r.as(token).call("POST", at+"approve", body).problem(403, gateway.Forbidden)
		}
	}
	for _, body := range []object{{}, {"as": "alice"}} {
		for _, text := range []string{"/approve", "/approve 1", "/deny always"} {
			body["text"], body["commands"] = text, true
			if got := r.call("POST", at+"messages", body); got.StatusCode != http.StatusForbidden && !strings.Contains(got.text, `"invalid":true`) {
				t.Errorf("%v: %s %s", body, got.Status, got.text)
			}
		}
	}
	turn, _, _ := strings.Cut(question, ".")
	r.as("ops").call("POST", at+"approve", object{"question": turn + ".2", "as": "carol"}).problem(409, gateway.OtherQuestion) // it comes later
	r.as("ops").call("POST", at+"approve", object{"question": question, "as": "carol"}).want(200)
	expect.Equal(t, "decided by", s.until(session.EventQuestionAnswered).By, "ops/carol")
	s.until(session.EventTurnEnded)
	r.as("ops").call("POST", at+"deny", object{"question": ask(), "as": "dave"}).want(200)
	expect.Equal(t, "denied by", s.until(session.EventQuestionAnswered).By, "ops/dave")
}
