package gateway_test

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/admin"
	"turnstile/pkg/agent/echo"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/expect"
)

// attempt is a request to a route. {s} stands for a session, {r} for the ID of its last response,
// {later} for that of the message later's, {theirs} for that of a response of the session theirs:1.
type attempt struct {
	path    string // "": the document's, with {id} as the message's
	body    string
	session string             // the header X-Turnstile-Session
	nobody  bool               // it names no session
	streams bool               // it does not end
	waits   bool               // it is repeated while a message waits
	shows   bool               // it shows texts without read
	also    gateway.Permission // it needs this right, too
	repeats repeats
	withKey repeats // where the document has no Idempotency-Key: the effect of repeating with one
}

// repeats is the effect of a repeated request. With a key that the document names, it is always none.
type repeats int

const (
	reads   repeats = iota // changes nothing, the first time as well
	same                   // changes nothing after the first time
	refused                // is refused after the first time
	again                  // acts again
)

// attempts are the routes of the document. Add new routes here.
var attempts = map[string][]attempt{
	"GET /metrics":      {{nobody: true}},
	"GET /scale":        {{nobody: true}},
	"POST /v1/messages": {{body: `{"text": "x"}`, nobody: true, repeats: again}},
	"POST /v1/sessions/{s}/messages": {
		{body: `{"text": "x"}`, repeats: again},
		{body: `{"text": "/new", "commands": true}`, repeats: again, also: gateway.Control},
	},
	"GET /v1/sessions/{s}/messages/{id}": {{}},
	"DELETE /v1/sessions/{s}/messages/{id}": {
		{path: "/v1/sessions/{s}/messages/later", repeats: same},
		{},
	},
	"GET /v1/sessions/{s}/events":     {{streams: true}},
	"GET /v1/events":                  {{nobody: true, streams: true}},
	"POST /v1/tickets":                {{body: `{"session": "{s}"}`}},
	"GET /v1/sessions":                {{nobody: true}},
	"GET /v1/sessions/{s}":            {{}},
	"DELETE /v1/sessions/{s}":         {{repeats: same}},
	"GET /v1/sessions/{s}/transcript": {{}},
	"POST /v1/sessions/{s}/stop":      {{waits: true, repeats: same}},
	"POST /v1/sessions/{s}/approve":   {{body: `{"question": "none.1"}`}},
	"POST /v1/sessions/{s}/deny":      {{body: `{"question": "none.1"}`}},
	"POST /v1/sessions/{s}/answers/{key}": {
		{path: "/v1/sessions/{s}/answers/payment", body: `{"value": 1, "secret": "x"}`},
	},
	"POST /v1/sessions/{s}/retry":    {{repeats: again}},
	"POST /v1/sessions/{s}/undo":     {{repeats: again}},
	"POST /v1/sessions/{s}/new":      {{repeats: again}},
	"POST /v1/sessions/{s}/resume":   {{repeats: same}},
	"POST /v1/sessions/{s}/queue":    {{body: `{"mode": "collect"}`, repeats: same}},
	"POST /v1/sessions/{s}/title":    {{body: `{"title": "x"}`, repeats: same}},
	"POST /v1/sessions/{s}/reply-to": {{body: `{"reply_to": "hook"}`, repeats: same}},
	"GET /v1/dead": {
		{path: "/v1/dead?session={s}", shows: true},
		{nobody: true, shows: true},
	},
	"POST /v1/dead/rerun": {{body: `{"session": "{s}"}`, repeats: same}},
	"GET /v1/outbox": {
		{path: "/v1/outbox?session={s}"},
		{nobody: true},
	},
	"POST /v1/outbox/redrive":          {{body: `{"session": "{s}"}`}},
	"GET /v1/destinations":             {{nobody: true}},
	"POST /v1/destinations/{d}/enable": {{path: "/v1/destinations/held/enable", nobody: true, repeats: same}},
	"POST /v1/destinations/{d}/pause":  {{path: "/v1/destinations/hook/pause", nobody: true, repeats: same}},
	"POST /v1/destinations/{d}/test":   {{path: "/v1/destinations/hook/test", nobody: true}},
	"POST /v1/responses": {
		{body: `{"conversation": "{s}", "input": "x", "background": true}`, repeats: again},
		{body: `{"conversation": "{s}", "input": "x", "stream": true}`, repeats: again},
		{body: `{"conversation": "{s}", "previous_response_id": "{r}", "input": "x", "background": true}`, repeats: refused},
		{body: `{"previous_response_id": "{r}", "input": "x", "background": true}`, repeats: refused},
		{body: `{"conversation": "{s}", "previous_response_id": "{theirs}", "input": "x"}`},
		{body: `{"input": "x", "background": true}`, nobody: true, repeats: again},
		{body: `{"input": "x", "stream": true}`, nobody: true, repeats: again},
	},
	"GET /v1/responses/{id}": {{path: "/v1/responses/{r}"}},
	"DELETE /v1/responses/{id}": {
		{path: "/v1/responses/{r}", repeats: same},
		{path: "/v1/responses/{later}"},
	},
	"GET /v1/responses/{id}/input_items":      {{path: "/v1/responses/{r}/input_items"}},
	"POST /v1/responses/{id}/cancel":          {{path: "/v1/responses/{later}/cancel", repeats: same}},
	"POST /v1/conversations":                  {{body: `{}`, nobody: true, repeats: again, withKey: same}},
	"GET /v1/conversations/{s}":               {{}},
	"POST /v1/conversations/{s}":              {{body: `{"metadata": {"a": "b"}}`}},
	"DELETE /v1/conversations/{s}":            {{repeats: same}},
	"GET /v1/conversations/{s}/items":         {{}},
	"POST /v1/conversations/{s}/items":        {{body: `{"items": []}`}},
	"GET /v1/conversations/{s}/items/{id}":    {{path: "/v1/conversations/{s}/items/msg_in_m"}},
	"DELETE /v1/conversations/{s}/items/{id}": {{path: "/v1/conversations/{s}/items/msg_in_m"}},
	"POST /v1/chat/completions": {
		{body: `{"messages": [{"role": "user", "content": "x"}], "metadata": {"session": "{s}"}}`, repeats: again},
		{body: `{"messages": [{"role": "user", "content": "x"}]}`, session: "{s}", repeats: again},
		{body: `{"messages": [{"role": "user", "content": "x"}], "stream": true}`, session: "{s}", repeats: again},
		{body: `{"messages": [{"role": "user", "content": "x"}]}`, nobody: true, repeats: again},
		{body: `{"messages": [{"role": "user", "content": "x"}], "stream": true}`, nobody: true, repeats: again},
	},
}

// free are the routes that ask for no right.
var free = []string{"GET /openapi.yaml", "GET /v1/models", "GET /v1/models/{id}"}

// about names an attempt.
func (a attempt) about(operation string) string {
	return strings.TrimSpace(operation + " " + a.path + a.body + a.session)
}

// send sends an attempt about a session.
func (a attempt) send(r *rig, operation, sessionKey string, edits ...edit) answer {
	r.Helper()
	method, path, _ := strings.Cut(operation, " ")
	if a.path != "" {
		path = a.path
	}
	response := func(sessionKey, id string) string {
		return "resp_" + base64.RawURLEncoding.EncodeToString([]byte(sessionKey+"\n"+id))
	}
	fill := strings.NewReplacer("{s}", sessionKey, "{id}", "m", "{r}", response(sessionKey, "m"), "{later}", response(sessionKey, "later"),
		"{theirs}", response("theirs:1", "m")).Replace
	if a.session != "" {
		edits = append(edits, header("X-Turnstile-Session", fill(a.session)))
	}
	if a.body == "" {
		return r.call(method, fill(path), nil, edits...)
	}
	return r.call(method, fill(path), fill(a.body), edits...)
}

// A gateway without tokens refuses requests while a worker's agent runs programs. One with tokens does
// not.
func TestGuard(t *testing.T) {
	t.Parallel()
	r, locked := newRig(t), newRig(t, withTokens(t, threeTokens))
	r.gateway.Guard(t.Context())
	r.call("GET", "/v1/sessions", nil).want(200)
	w, err := worker.New(acl.Client(t, acl.Worker), echo.New(), worker.Config{
		AgentName: "model", RunsPrograms: true, Logger: slog.New(slog.DiscardHandler),
	})
	expect.OK(t, err)
	expect.OK(t, w.Start(t.Context()))
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	operator := admin.NewClient(r.redis)
	expect.Soon(t, "the worker's heartbeat", func() bool {
		workers, err := operator.Workers(t.Context())
		return err == nil && len(workers) > 0 && workers[0].Agent == "model" && workers[0].Programs
	})
	another := rigOn(t, r.redis) // the first one looks again within 5 s
	for _, g := range []*rig{another, locked} {
		g.gateway.Guard(t.Context())
	}
	p := another.call("GET", "/v1/sessions", nil).problem(http.StatusForbidden, gateway.Forbidden)
	contains(t, "the problem", p.Detail, "TURNSTILE_GATEWAY_TOKENS_FILE")
	another.call("POST", "/v1/sessions/s/messages", object{"text": "hi"}).problem(http.StatusForbidden, gateway.Forbidden)
	another.call("GET", "/openapi.yaml", nil).want(200)
	locked.as("root").call("GET", "/v1/sessions", nil).want(200)
	expect.Soon(t, "the gateway of before to be closed", func() bool {
		return r.call("GET", "/v1/sessions", nil).StatusCode == http.StatusForbidden
	})
}
