package gateway_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"turnstile"
	"turnstile/docs"
	"turnstile/internal/gateway"
	"turnstile/internal/gateway/openai"
	"turnstile/internal/protocol"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// attempt is a request to a route. {s} stands for a session, {m} for the id of its message, {r} for
// that of its response.
type attempt struct {
	path    string // "": the document's, with {id} as the message's
	body    string
	nobody  bool // it names no session
	streams bool
}

// attempts are the routes of the document. A new route is tried once it is here.
var attempts = map[string]attempt{
	"GET /metrics":                          {nobody: true},
	"POST /v1/messages":                     {body: `{"text": "x"}`, nobody: true},
	"POST /v1/sessions/{s}/messages":        {body: `{"text": "x"}`},
	"GET /v1/sessions/{s}/messages/{id}":    {},
	"DELETE /v1/sessions/{s}/messages/{id}": {},
	"GET /v1/sessions/{s}/events":           {streams: true},
	"GET /v1/events":                        {nobody: true, streams: true},
	"POST /v1/tickets":                      {body: `{"session": "{s}"}`},
	"GET /v1/sessions":                      {nobody: true},
	"GET /v1/sessions/{s}":                  {},
	"DELETE /v1/sessions/{s}":               {},
	"GET /v1/sessions/{s}/transcript":       {},
	"POST /v1/sessions/{s}/stop":            {},
	"POST /v1/sessions/{s}/approve":         {body: `{"question": "none.1"}`},
	"POST /v1/sessions/{s}/deny":            {body: `{"question": "none.1"}`},
	"POST /v1/sessions/{s}/retry":           {},
	"POST /v1/sessions/{s}/undo":            {},
	"POST /v1/sessions/{s}/new":             {},
	"POST /v1/sessions/{s}/resume":          {},
	"POST /v1/sessions/{s}/queue":           {body: `{"mode": "collect"}`},
	"POST /v1/sessions/{s}/title":           {body: `{"title": "x"}`},
	"POST /v1/sessions/{s}/reply-to":        {body: `{"reply_to": "hook"}`},
	"GET /v1/dead":                          {path: "/v1/dead?session={s}"},
	"POST /v1/dead/rerun":                   {body: `{"session": "{s}"}`},
	"GET /v1/outbox":                        {path: "/v1/outbox?session={s}"},
	"POST /v1/outbox/redrive":               {body: `{"session": "{s}"}`},
	"GET /v1/destinations":                  {nobody: true},
	"POST /v1/destinations/{d}/enable":      {path: "/v1/destinations/hook/enable", nobody: true},
	"POST /v1/destinations/{d}/pause":       {path: "/v1/destinations/hook/pause", nobody: true},
	"POST /v1/destinations/{d}/test":        {path: "/v1/destinations/hook/test", nobody: true},
	"POST /v1/responses":                    {body: `{"conversation": "{s}", "input": "x", "background": true}`},
	"GET /v1/responses/{id}":                {path: "/v1/responses/{r}"},
	"POST /v1/responses/{id}/cancel":        {path: "/v1/responses/{r}/cancel"},
	"POST /v1/chat/completions":             {body: `{"messages": [{"role": "user", "content": "x"}], "metadata": {"session": "{s}"}}`},
}

// free are the routes that ask for no right.
var free = []string{"GET /openapi.yaml", "GET /v1/models"}

// send sends an attempt about a session.
func (a attempt) send(r *rig, operation, sessionKey string) answer {
	r.Helper()
	method, path, _ := strings.Cut(operation, " ")
	if a.path != "" {
		path = a.path
	}
	response := "resp_" + base64.RawURLEncoding.EncodeToString([]byte(sessionKey+"\nm"))
	fill := strings.NewReplacer("{s}", sessionKey, "{id}", "m", "{r}", response).Replace
	if a.body == "" {
		return r.call(method, fill(path), nil)
	}
	return r.call(method, fill(path), fill(a.body))
}

// needs are the rights that the document's summary names, of which one is enough. all says that the
// token must see every session.
func needs(t *testing.T) map[string]struct {
	rights []gateway.Permission
	all    bool
} {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct{ Summary string }
	}
	expect.OK(t, yaml.Unmarshal(docs.OpenAPI, &document))
	named := map[string]struct {
		rights []gateway.Permission
		all    bool
	}{}
	words := regexp.MustCompile(`Needs (send|read|control|operate)(, or (send|read|control|operate))?( and all sessions)?`)
	for path, methods := range document.Paths {
		for method, operation := range methods {
			n := named[""]
			if m := words.FindStringSubmatch(operation.Summary); m != nil {
				n.rights, n.all = []gateway.Permission{gateway.Permission(m[1])}, m[4] != ""
				if m[3] != "" {
					n.rights = append(n.rights, gateway.Permission(m[3]))
				}
			}
			named[strings.ToUpper(method)+" "+path] = n
		}
	}
	return named
}

func (a answer) code() string {
	var body struct {
		Code  string
		Error json.RawMessage
	}
	var inner struct{ Code string }
	_ = json.Unmarshal([]byte(a.text), &body)
	_ = json.Unmarshal(body.Error, &inner)
	return body.Code + inner.Code
}

// Every route of the document refuses whoever lacks the right that its summary names, hides each session
// that the token does not see, and leaves that as it is.
func TestRoutesAndRights(t *testing.T) {
	t.Parallel()
	rights := []gateway.Permission{gateway.Send, gateway.Read, gateway.Control, gateway.Operate}
	tokens := []string{
		`{"name": "owner", "sha256": "SUM", "sessions": ["mine:*"], "new": "mine:", "may": ["send", "read", "control", "operate"]}`,
		`{"name": "root", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control", "operate"]}`,
	}
	for _, p := range rights {
		tokens = append(tokens, fmt.Sprintf(`{"name": %q, "sha256": "SUM", "sessions": ["mine:*"], "new": "mine:", "may": [%q]}`, p, p))
	}
	r := newRig(t, withTokens(t, "["+strings.Join(tokens, ",")+"]"))
	rdb := acl.Client(t, acl.Gateway)
	client := turnstile.NewClient(rdb)
	openai.New(client, admin.NewClient(rdb), protocol.NewBodies(rdb)).Mount(r.gateway)
	r.worker()
	seed := func(key string) {
		t.Helper()
		_, err := client.Submit(t.Context(), key, session.Message{ID: "m", Text: "hello", Meta: map[string]string{"openai": "{}"}})
		expect.OK(t, err)
		_, err = client.Wait(t.Context(), key, "m")
		expect.OK(t, err)
	}
	const theirs = "theirs:1"
	seed(theirs)
	foreign := func() (dump string) {
		keys := r.redis.Keys(t.Context(), "*{session:"+theirs+"}*").Val()
		slices.Sort(keys)
		for _, key := range keys {
			dump += key + " " + actors.Content(t.Context(), r.redis, key, r.redis.Type(t.Context(), key).Val()) + "\n"
		}
		return dump
	}
	before := foreign()
	named, n := needs(t), 0
	for _, operation := range operations() {
		if slices.Contains(free, operation) {
			expect.Equal(t, operation+" names a right", len(named[operation].rights), 0)
			continue
		}
		a, ok := attempts[operation]
		if !ok {
			t.Errorf("%s: add it to attempts", operation)
			continue
		}
		n++
		mine := fmt.Sprintf("mine:%d", n)
		seed(mine)
		need := named[operation]
		if len(need.rights) == 0 {
			t.Errorf("%s: its summary names no right", operation)
		}
		expect.Equal(t, operation+" without a token", a.send(r, operation, mine).StatusCode, http.StatusUnauthorized)
		for _, p := range rights {
			if slices.Contains(need.rights, p) {
				continue
			}
			got := a.send(r.as(string(p)), operation, mine)
			expect.Equal(t, operation+" with "+string(p), fmt.Sprintf("%d %s", got.StatusCode, got.code()), "403 forbidden")
		}
		if need.all {
			got := a.send(r.as("owner"), operation, mine)
			expect.Equal(t, operation+" of somebody who does not see all", fmt.Sprintf("%d %s", got.StatusCode, got.code()), "403 forbidden")
		}
		if !a.nobody {
			got := a.send(r.as("owner"), operation, theirs)
			if got.StatusCode != http.StatusNotFound || got.code() != "unknown_session" && got.code() != "unknown_message" {
				t.Errorf("%s about another's session: %s", operation, got.Status)
			}
		}
		if a.streams {
			continue
		}
		who := "owner"
		if need.all {
			who = "root"
		}
		got := a.send(r.as(who), operation, mine)
		if got.StatusCode == http.StatusUnauthorized || got.StatusCode == http.StatusForbidden || got.code() == "unknown_session" {
			t.Errorf("%s with its right: %s %s", operation, got.Status, got.text)
		}
		if who == "owner" && strings.Contains(got.text, theirs) {
			t.Errorf("%s tells of another's session: %s", operation, got.text)
		}
	}
	for operation := range attempts {
		if _, ok := named[operation]; !ok {
			t.Errorf("%s is no route", operation)
		}
	}
	actors.Same(t, "the other's session", before, foreign())
}
