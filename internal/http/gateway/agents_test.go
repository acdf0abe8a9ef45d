package gateway_test

import (
	"net/http"
	"testing"

	"turnstile/internal/http/gateway"
)

// Only a token that may do so names an agent: in a message, a new transcript or /agent. A session keeps the
// agent that it has.
func TestWhoMayNameAnAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[
		{"name": "web", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control"]},
		{"name": "root", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control", "agent"]}]`))
	web, root := r.as("web"), r.as("root")
	const say, begin = "/v1/sessions/s/messages", "/v1/sessions/s/new"

	web.call("POST", say, object{"text": "hi", "agent": "coder"}).problem(http.StatusForbidden, gateway.Forbidden)
	web.call("POST", begin, object{"agent": "coder"}).problem(http.StatusForbidden, gateway.Forbidden)
	web.call("POST", say, object{"text": "/agent coder", "commands": true}).problem(http.StatusForbidden, gateway.Forbidden)
	web.call("GET", "/v1/sessions/s", nil).problem(http.StatusNotFound, gateway.UnknownSession)

	root.call("POST", say, object{"text": "hi", "agent": "no name"}).problem(http.StatusBadRequest, gateway.InvalidRequest)
	root.call("POST", say, object{"text": "hi", "agent": "coder"}).want(http.StatusAccepted)
	root.call("POST", say, object{"text": "hi", "agent": "support"}).problem(http.StatusConflict, gateway.OtherAgent)
	web.call("POST", say, object{"text": "and"}).want(http.StatusAccepted)
	agentIs := func(want string) {
		t.Helper()
		var s struct{ Agent string }
		if web.call("GET", "/v1/sessions/s", nil).want(http.StatusOK, &s); s.Agent != want {
			t.Errorf("the agent is %q, want %q", s.Agent, want)
		}
	}
	agentIs("coder")
	var told struct{ Reply string }
	web.call("POST", say, object{"text": "/agent", "commands": true}).want(http.StatusOK, &told)
	contains(t, "/agent", told.Reply, "coder")
	root.call("POST", say, object{"text": "/agent support", "commands": true}).want(http.StatusOK, &told)
	contains(t, "/agent support", told.Reply, "a new conversation with support")
	agentIs("support")
	root.call("POST", begin, object{"agent": "coder"}).want(http.StatusOK)
	agentIs("coder")
	r.worker() // which has neither
	root.call("POST", say, object{"text": "/agent nobody", "commands": true}).want(http.StatusOK, &told)
	contains(t, "/agent nobody", told.Reply, "no running worker has an agent nobody")
	agentIs("coder")
}
