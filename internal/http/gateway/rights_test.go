package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"turnstile"
	"turnstile/docs"
	"turnstile/internal/http/gateway"
	"turnstile/internal/http/openai"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// needs returns the rights that the document's summary names. One of them is enough. all says that
// the token must see every session.
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
	words := regexp.MustCompile(`Needs (send|read|control|operate|watch)(,? or (send|read|control|operate))?(,? and all sessions)?`)
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

// seeded is in every text of the sessions, and canaries are in their other contents: a tool, its tokens, meta and an error.
const seeded = "seeded words"

var canaries = []string{seeded, "seeded-tool", "987654321", "seeded-meta", "seeded-error"}

// canary returns the first of them in a text.
func canary(text string) string {
	for _, c := range canaries {
		if strings.Contains(text, c) {
			return c
		}
	}
	return ""
}

// Every route of the document refuses whoever lacks the right that its summary names, and serves whoever
// has only that. It shows no text without read. Sessions that the token does not see are hidden and not
// changed.
func TestRoutesAndRights(t *testing.T) {
	t.Parallel()
	rights := []gateway.Permission{gateway.Send, gateway.Read, gateway.Control, gateway.Operate, gateway.Watch}
	tokens := []string{
		`{"name": "owner", "sha256": "SUM", "sessions": ["mine:*"], "new": "mine:", "may": ["send", "read", "control", "operate"]}`,
		`{"name": "root", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control", "operate"]}`,
	}
	for _, p := range rights {
		tokens = append(tokens,
			fmt.Sprintf(`{"name": %q, "sha256": "SUM", "sessions": ["mine:*"], "new": "mine:", "may": [%q]}`, p, p),
			fmt.Sprintf(`{"name": "all-%s", "sha256": "SUM", "sessions": ["*"], "new": "mine:", "may": [%q]}`, p, p))
	}
	r := newRig(t, withTokens(t, "["+strings.Join(tokens, ",")+"]"))
	rdb := acl.Client(t, acl.Gateway)
	client := turnstile.NewClient(rdb)
	openai.New(client, admin.NewClient(rdb), protocol.NewBodies(rdb)).Mount(r.gateway)
	r.worker()
	n := 0
	seed := func(key string, opts ...actors.Option) string {
		t.Helper()
		send := func(id string, opts ...actors.Option) {
			t.Helper()
			_, err := client.Session(key).Send(t.Context(), actors.With(turnstile.Message{
				ID: id, Text: "title=seeded_words tool=seeded-tool usage=987654321:1 " + seeded, Meta: map[string]string{"openai": "{}", "other": "seeded-meta"},
			}, opts...))
			expect.OK(t, err)
		}
		send("dead", actors.Delay(time.Hour))
		_, _, err := actors.Cancel(t.Context(), client.Session(key), "dead", true)
		expect.OK(t, err)
		send("later", actors.Delay(time.Hour))
		send("failed", func(m *turnstile.Message) { m.Text = "fail=seeded-error " + seeded })
		_, err = client.Session(key).Wait(t.Context(), "failed")
		expect.OK(t, err)
		send("m", opts...)
		_, err = client.Session(key).Wait(t.Context(), "m")
		expect.OK(t, err)
		return key
	}
	mine := func() string {
		t.Helper()
		n++
		return seed(fmt.Sprintf("mine:%d", n))
	}
	theirs := seed("theirs:1", actors.ReplyTo(wire.Route{To: "hook"}))
	k := rediskey.For(theirs)
	record := r.redis.ZRangeWithScores(t.Context(), k.Outbox(), 0, 0).Val()[0]
	expect.OK(t, r.redis.ZRem(t.Context(), k.Outbox(), record.Member).Err())
	expect.OK(t, r.redis.ZAdd(t.Context(), k.Undelivered(), record).Err())
	foreign := func() (dump string) {
		keys := r.redis.Keys(t.Context(), "*{session:"+theirs+"}*").Val()
		slices.Sort(keys)
		for _, key := range keys {
			dump += key + " " + actors.Content(t.Context(), r.redis, key, r.redis.Type(t.Context(), key).Val()) + "\n"
		}
		return dump
	}
	before := foreign()
	for _, path := range []string{"/v1/dead", "/v1/outbox"} { // there is something to hide
		contains(t, path+" of root", r.as("root").call("GET", path, nil).want(200).text, theirs)
	}
	named := needs(t)
	for _, operation := range operations() {
		need := named[operation]
		if slices.Contains(free, operation) {
			expect.Equal(t, operation+" names a right", len(need.rights), 0)
			continue
		}
		if attempts[operation] == nil {
			t.Errorf("%s: add it to attempts", operation)
		}
		if len(need.rights) == 0 {
			t.Errorf("%s: its summary names no right", operation)
		}
		for _, a := range attempts[operation] {
			about, key := a.about(operation), mine()
			expect.Equal(t, about+" without a token", a.send(r, operation, key).StatusCode, http.StatusUnauthorized)
			for _, p := range rights {
				if !slices.Contains(need.rights, p) {
					a.forbidden(r.as(string(p)), operation, key)
				}
			}
			who, alone := "owner", ""
			if need.all {
				a.forbidden(r.as("owner"), operation, key)
				who, alone = "root", "all-"
			}
			if !a.nobody {
				got := a.send(r.as("owner"), operation, theirs)
				if got.StatusCode != http.StatusNotFound || got.code() != "unknown_session" && got.code() != "unknown_message" {
					t.Errorf("%s about another's session: %s %s", about, got.Status, got.text)
				}
			}
			if a.streams {
				continue
			}
			for _, p := range need.rights {
				if a.also != "" {
					a.forbidden(r.as(string(p)), operation, key)
					continue
				}
				got := a.served(r.as(alone+string(p)), operation, mine())
				if p != gateway.Read {
					if c := canary(got.text); (c != "") != a.shows {
						t.Errorf("%s shows %q to %s: %s", about, c, p, got.text)
					}
				}
			}
			got := a.served(r.as(who), operation, key)
			if who == "owner" && !strings.Contains(a.body, "{theirs}") && strings.Contains(got.text, theirs) {
				t.Errorf("%s tells of another's session: %s", about, got.text)
			}
		}
	}
	for operation := range attempts {
		if _, ok := named[operation]; !ok {
			t.Errorf("%s is no route", operation)
		}
	}
	actors.Same(t, "the other's session", before, foreign())
}

// forbidden fails the test unless the request is refused.
func (a attempt) forbidden(r *rig, operation, sessionKey string) {
	r.Helper()
	got := a.send(r, operation, sessionKey)
	expect.Equal(r, a.about(operation)+" with "+r.token, fmt.Sprintf("%d %s", got.StatusCode, got.code()), "403 forbidden")
}

// served fails the test unless the token may send the request, and returns the answer.
func (a attempt) served(r *rig, operation, sessionKey string) answer {
	r.Helper()
	got := a.send(r, operation, sessionKey)
	if got.StatusCode == http.StatusUnauthorized || got.StatusCode == http.StatusForbidden || got.code() == "unknown_session" {
		r.Errorf("%s with %s: %s %s", a.about(operation), r.token, got.Status, got.text)
	}
	return got
}

// A token that may control but not read gets no text of the session.
func TestControlReadsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[
		{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control"]},
		{"name": "blind", "sha256": "SUM", "sessions": ["*"], "may": ["send", "control"]}]`))
	r.worker()
	bot, blind := r.as("bot"), r.as("blind")
	const at = "/v1/sessions/s/"
	for _, text := range []string{"PIN one", "PIN two", "PIN three"} {
		bot.call("POST", at+"messages", object{"text": text}, header("Idempotency-Key", text[4:]), header("Prefer", "wait=60")).want(200)
	}
	bot.call("POST", at+"title", object{"title": "PIN"}).want(200)
	command := func(text string) answer {
		return blind.call("POST", at+"messages", object{"text": text, "commands": true})
	}
	for _, text := range []string{"/history", "/status", "/title", "/undo", "/retry", " /history 5 "} {
		command(text).problem(403, gateway.Forbidden)
	}
	deleted := blind.call("DELETE", at+"messages/three", nil).want(200)
	contains(t, "an ended message", deleted.text, `"status":"done"`)
	for _, a := range []answer{
		deleted, command("/stop").want(200), command("/queue").want(200), command("/new").want(200),
		blind.call("POST", at+"new", nil).want(200),
	} {
		if strings.Contains(a.text, "PIN") {
			t.Errorf("without read it is shown %s", a.text)
		}
	}
	for _, text := range []string{"PIN four", "PIN five"} {
		bot.call("POST", at+"messages", object{"text": text}, header("Prefer", "wait=60")).want(200)
	}
	for _, do := range []string{"undo", "retry"} {
		a := blind.call("POST", at+do, nil).want(200)
		if strings.Contains(a.text, "PIN") {
			t.Errorf("without read %s shows %s", do, a.text)
		}
	}
}
