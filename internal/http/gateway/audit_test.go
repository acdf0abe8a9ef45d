package gateway_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/test/acl"
	"turnstile/test/expect"
)

// lines are what a logger wrote.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// audits are the lines about changes: what, in which session, by whom.
func (l *lines) audits(t *testing.T) (all []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var v struct{ Msg, Did, Session, Token, By, Address string }
		expect.OK(t, json.Unmarshal([]byte(line), &v))
		if v.Msg != "audit" {
			continue
		}
		if v.Token == "" || v.Address == "" {
			t.Errorf("%s lacks a token or an address", line)
		}
		all = append(all, v.Did+" "+v.Session+" "+v.By)
	}
	return all
}

// Each change through the gateway is in the session's audit and a line of the log, with its author. What only
// reads, what was refused, and wrong tokens are in neither.
func TestAudit(t *testing.T) {
	t.Parallel()
	var log lines
	r := rigWith(t, acl.Client(t, acl.Gateway), func(d *gateway.Deps) { d.Logger = slog.New(slog.NewJSONHandler(&log, nil)) }, withTokens(t, `[
		{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control", "operate"]},
		{"name": "eye", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}]`)).as("bot")
	r.worker()
	const at = "/v1/sessions/s/"
	s := r.stream("s", "")
	r.call("POST", at+"messages", object{"text": "ask=rm done", "as": "alice"}).want(202)
	e := s.until("permission_asked")
	question := e.Turn + "." + e.CallID
	r.call("POST", at+"approve", object{"question": question, "as": "mallory"}).problem(403, gateway.Forbidden)
	r.call("POST", at+"approve", object{"question": question, "as": "alice"}).want(200)
	s.until("turn_ended")
	for range 50 { // a flood changes nothing of what was noted
		r.as("wrong").call("POST", at+"stop", nil)
	}
	r.as("eye").call("POST", at+"stop", nil).problem(403, gateway.Forbidden)
	r.call("GET", at+"transcript", nil).want(200)
	r.call("POST", at+"messages", object{"text": "/status", "commands": true}).want(200)
	r.call("POST", at+"messages", object{"text": "/queue nothing", "commands": true}).want(200)
	r.call("POST", at+"messages", object{"text": "/queue collect", "commands": true, "as": "bob"}).want(200)
	r.call("POST", at+"undo", nil).want(200)
	r.call("POST", at+"new", nil).want(200)

	list, err := admin.NewClient(r.redis).Session("s").Audit(t.Context())
	expect.OK(t, err)
	var got []string
	for _, a := range list {
		got = append(got, a.By+" "+a.Did+" "+a.What)
	}
	expect.List(t, "the session's audit", got, "bot/alice allow "+question, "bot/bob queue "+`{"mode":"collect"}`, "bot undo "+e.Turn, "bot new ")
	expect.List(t, "the log", log.audits(t),
		"POST /v1/sessions/{s}/approve s bot/alice", "/queue s bot/bob", "POST /v1/sessions/{s}/undo s bot", "POST /v1/sessions/{s}/new s bot")
	r.call("DELETE", "/v1/sessions/s", nil).want(204)
	if all := log.audits(t); all[len(all)-1] != "DELETE /v1/sessions/{s} s bot" {
		t.Errorf("the log %q", all)
	}
	list, err = admin.NewClient(r.redis).Session("s").Audit(t.Context())
	expect.OK(t, err)
	expect.Equal(t, "entries after the erase", len(list), 0)
}
