package gateway_test

import (
	"context"
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
	"turnstile/internal/http/openai"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// repeatRig is a gateway with a worker, and a session in which every operation but those on questions and
// deliveries has something to change: five turns, the last of them m's, a dead letter, and the delayed
// message later. If waits, the session is paused and one more message waits.
func repeatRig(t *testing.T, waits bool) *rig {
	t.Helper()
	r := newRig(t, withTokens(t, `[
		{"name": "ann", "sha256": "SUM", "sessions": ["*"], "new": "mine:", "may": ["send", "read", "control", "operate"]},
		{"name": "bob", "sha256": "SUM", "sessions": ["*"], "new": "mine:", "may": ["send", "read", "control", "operate"]},
		{"name": "eve", "sha256": "SUM", "sessions": ["hers:*"], "new": "hers:", "may": ["send", "read", "control", "operate"]}]`))
	rdb := acl.Client(t, acl.Gateway)
	client := turnstile.NewClient(rdb)
	openai.New(client, admin.NewClient(rdb), protocol.NewBodies(rdb)).Mount(r.gateway)
	expect.OK(t, admin.NewClient(rdb).PauseDestination(t.Context(), "held", ""))
	send := func(id string, opts ...actors.Option) {
		t.Helper()
		_, err := client.Session("mine:s").Send(t.Context(), actors.With(turnstile.Message{ID: id, Text: "hello", Meta: map[string]string{"openai": "{}"}}, opts...))
		expect.OK(t, err)
	}
	send("dead")
	_, err := client.Session("mine:s").Stop(t.Context())
	expect.OK(t, err)
	r.worker()
	for _, id := range []string{"m1", "m2", "m3", "m4", "m"} {
		send(id)
		_, err := client.Session("mine:s").Wait(t.Context(), id)
		expect.OK(t, err)
	}
	send("later", actors.Delay(time.Hour))
	if waits {
		expect.OK(t, r.redis.Set(t.Context(), rediskey.For("mine:s").Paused(), 1, 0).Err())
		send("waits")
	}
	return r.as("ann")
}

// lastChange has the fields for the time of a session's last change, and the author of a
// destination's.
var lastChange = regexp.MustCompile(` updated_at="\d+"|paused by \w+`)

// atRest waits until nothing runs or may run. It returns everything of all sessions and destinations, without lastChange.
func (r *rig) atRest() (dump string) {
	r.Helper()
	operator := admin.NewClient(r.redis)
	expect.Soon(r, "all sessions are idle", func() bool {
		list, err := operator.Page(r.Context(), admin.Query{})
		expect.OK(r, err)
		return !slices.ContainsFunc(list.Sessions, func(s admin.SessionInfo) bool {
			return s.Phase != session.PhaseIdle || s.Waiting > 0 && !s.Paused
		})
	})
	ctx := context.Background()
	keys := r.redis.Keys(ctx, "*{session:*").Val()
	keys = append(keys, r.redis.Keys(ctx, "*destination*").Val()...)
	slices.Sort(keys)
	for _, key := range keys {
		dump += key + " " + actors.Content(ctx, r.redis, key, r.redis.Type(ctx, key).Val()) + "\n"
	}
	return lastChange.ReplaceAllString(dump, "")
}

// keyed are the operations that take an Idempotency-Key by the document.
func keyed(t *testing.T) (list []string) {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Ref string `yaml:"$ref"`
			}
		}
	}
	expect.OK(t, yaml.Unmarshal(docs.OpenAPI, &document))
	for path, methods := range document.Paths {
		for method, operation := range methods {
			for _, p := range operation.Parameters {
				if strings.HasSuffix(p.Ref, "/IdempotencyKey") {
					list = append(list, strings.ToUpper(method)+" "+path)
				}
			}
		}
	}
	return list
}

// The result of a repeated request is as listed in attempts, for every route of the document:
// repeated as it is, with a key, and by another token. A route that takes a key acts once for it.
func TestRoutesRepeated(t *testing.T) {
	t.Parallel()
	takesKey := keyed(t)
	for _, operation := range operations() {
		if attempts[operation] == nil && !slices.Contains(free, operation) {
			t.Errorf("%s: add it to attempts", operation)
		}
		for _, a := range attempts[operation] {
			if a.streams {
				continue
			}
			t.Run(a.about(operation), func(t *testing.T) {
				t.Parallel()
				r, isKeyed := repeatRig(t, a.waits), slices.Contains(takesKey, operation) && a.repeats != reads
				a.repeated(r, operation)
				if !isKeyed {
					a.notKeyed(r, operation)
					return
				}
				t.Run("with a key", func(t *testing.T) {
					a.keyed(repeatRig(t, a.waits), operation)
				})
			})
		}
	}
}

// repeated repeats a request, and then with another token.
func (a attempt) repeated(r *rig, operation string) {
	r.Helper()
	before := r.atRest()
	first := a.send(r, operation, "mine:s")
	once := r.atRest()
	expect.Equal(r, "the first changes something", before != once, a.repeats != reads)
	second := a.send(r, operation, "mine:s")
	a.repeats.check(r, "again", once)
	status := first.StatusCode
	switch {
	case status == http.StatusNoContent, strings.Contains(first.text, `"deleted":true`):
		status = http.StatusNotFound // it was deleted
	case a.repeats == refused:
		expect.Equal(r, "accepted", status, http.StatusOK)
		status = http.StatusBadRequest
	}
	expect.Equal(r, "status of the repetition", second.StatusCode, status)
	twice := r.atRest()
	third := a.send(r.as("bob"), operation, "mine:s")
	expect.Equal(r, "status with another token", third.StatusCode, status)
	a.repeats.check(r, "with another token", twice)
}

// ofBody matches the key of a body that was sent again, also if that message was refused.
var ofBody = regexp.MustCompile(`(?m)^\S+:call:oai-.*\n`)

// check checks the changes of a repetition.
func (kind repeats) check(r *rig, what, before string) {
	r.Helper()
	if kind == refused {
		actors.Same(r.T, what, ofBody.ReplaceAllString(before, ""), ofBody.ReplaceAllString(r.atRest(), ""))
		return
	}
	if kind == again {
		expect.Equal(r, what+" it acts", before != r.atRest(), true)
		return
	}
	actors.Same(r.T, what, before, r.atRest())
}

// notKeyed repeats a request with a key that the document does not have.
func (a attempt) notKeyed(r *rig, operation string) {
	r.Helper()
	key := header("Idempotency-Key", "a key")
	a.send(r, operation, "mine:s", key)
	once := r.atRest()
	a.send(r, operation, "mine:s", key)
	a.withKey.check(r, "with the same key", once)
}

var anID = regexp.MustCompile(`"id": ?"([^"]+)"`)

// named returns the IDs in the response to an accepted message. A command's result has none, and is
// returned as it is.
func (a answer) named() string {
	a.t.Helper()
	if a.StatusCode != http.StatusAccepted {
		a.want(http.StatusOK)
	}
	var body struct{ Session string }
	_ = json.Unmarshal([]byte(a.text), &body) // a stream's is none
	if id := anID.FindStringSubmatch(a.text); id != nil {
		return body.Session + " " + id[1]
	}
	contains(a.t, "an answer without an id", a.text, `"answered"`)
	return a.text
}

// keyed repeats a request with its key: as it is, with another body, and with other tokens.
func (a attempt) keyed(r *rig, operation string) {
	r.Helper()
	key := header("Idempotency-Key", "a key")
	first := a.send(r, operation, "mine:s", key)
	once := r.atRest()
	expect.Equal(r, operation+" with its key", a.send(r, operation, "mine:s", key).named(), first.named())
	actors.Same(r.T, operation+" with its key", once, r.atRest())

	other := a
	other.body = strings.NewReplacer(`"x"`, `"y"`, "/new", "/stop").Replace(a.body)
	expect.Equal(r, "another body", other.body != a.body, true)
	refused := other.send(r, operation, "mine:s", key)
	expect.Equal(r, operation+" with another body", refused.code(), "idempotency_conflict")
	actors.Same(r.T, operation+" with another body", once, r.atRest())

	// In a session that both see the key is taken. A token that does not see the session learns nothing.
	bob := a.send(r.as("bob"), operation, "mine:s", key)
	if a.nobody {
		expect.Equal(r, operation+" with another token is another message", bob.named() != first.named(), true)
		expect.Equal(r, operation+" with another token leaves the first one's", a.send(r, operation, "mine:s", key).named(), first.named())
		return
	}
	expect.Equal(r, operation+" with another token", bob.code(), "idempotency_conflict")
	known, unknown := a.send(r.as("eve"), operation, "mine:s", key), a.send(r.as("eve"), operation, "mine:s", header("Idempotency-Key", "new"))
	expect.Equal(r, operation+" with a token that does not see the session",
		fmt.Sprint(known.StatusCode, known.code()), fmt.Sprint(unknown.StatusCode, unknown.code()))
	expect.Equal(r, "which is refused", known.StatusCode, 404)
	actors.Same(r.T, operation+" with other tokens", once, r.atRest())
}
