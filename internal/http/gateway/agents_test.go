package gateway_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/test/expect"
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

// list returns the keys of all pages of a list.
func (r *rig) list(query string) (keys []string) {
	r.Helper()
	for cursor := ""; ; {
		var page struct {
			Sessions []struct{ Session, State string }
			Next     string
		}
		r.call("GET", "/v1/sessions?"+query+"&cursor="+url.QueryEscape(cursor), nil).want(200, &page)
		for _, s := range page.Sessions {
			keys = append(keys, s.Session)
		}
		if cursor = page.Next; cursor == "" {
			return keys
		}
	}
}

func TestListOfSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[
		{"name": "root", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control"]},
		{"name": "web", "sha256": "SUM", "sessions": ["web:*", "one", "web:1*"], "may": ["read"]},
		{"name": "dm", "sha256": "SUM", "sessions": ["agent:*:dm:*"], "may": ["read"]},
		{"name": "blind", "sha256": "SUM", "sessions": ["*"], "may": ["send"]}]`))
	root := r.as("root")
	for _, key := range []string{"agent:a:dm:1", "agent:a:group:1", "agent:b:dm:2", "one", "one2", "web:1", "web:2", "web:3", "webx"} {
		root.call("POST", "/v1/sessions/"+key+"/title", object{"title": "T"}).want(200)
	}
	root.call("POST", "/v1/sessions/web:2/messages", object{"text": "x"}).want(202)
	root.call("POST", "/v1/sessions/one2/messages", object{"text": "x"}).want(202)
	for _, c := range []struct {
		token, query string
		want         string
	}{
		{"root", "prefix=web&limit=2", "web:1 web:2 web:3 webx"},
		{"root", "state=waiting&prefix=web", "web:2"},
		{"root", "state=attention", ""},
		{"web", "limit=1", "one web:1 web:2 web:3"},
		{"web", "limit=3", "one web:1 web:2 web:3"},
		{"web", "state=waiting&limit=1", "web:2"},
		{"web", "state=idle", "one web:1 web:3"},
		{"web", "prefix=web:3", "web:3"},
		{"web", "prefix=o", "one"},
		{"web", "prefix=agent", ""},
		{"dm", "limit=1", "agent:a:dm:1 agent:b:dm:2"},
		{"dm", "prefix=agent:b", "agent:b:dm:2"},
	} {
		expect.List(t, c.token+" "+c.query, r.as(c.token).list(c.query), strings.Fields(c.want)...)
	}
	if n := len(root.list("limit=4")); n != 9 {
		t.Errorf("root sees %d sessions", n)
	}
	p := root.call("GET", "/v1/sessions?state=x", nil).problem(400, gateway.InvalidRequest)
	contains(t, "detail", p.Detail, `state "x": it is one of attention, starting, running, asking, paused, waiting, delayed, suspended and idle`)
	for _, bad := range []string{"state=Idle", "limit=0", "limit=501", "limit=x", "prefix=a/b", "cursor=x", "page=2"} {
		root.call("GET", "/v1/sessions?"+bad, nil).problem(400, gateway.InvalidRequest)
	}
	for _, bad := range []string{"x", "9.", "-1.", ".", "0.x"} {
		r.as("web").call("GET", "/v1/sessions?cursor="+bad, nil).problem(400, gateway.InvalidRequest)
	}
	r.as("blind").call("GET", "/v1/sessions", nil).problem(403, gateway.Forbidden)
}
