package gateway_test

import (
	"strings"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/expect"
)

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
