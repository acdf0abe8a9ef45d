package gateway_test

import (
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
