package gateway_test

import (
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// An idempotency key stands for a command's result: the command is carried out once.
func TestCommandWithAKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	const at = "/v1/sessions/s/messages"
	for _, text := range []string{"one", "two", "three"} {
		r.say("s", text)
	}
	entries := func() int {
		var page struct{ Entries []session.Entry }
		r.call("GET", "/v1/sessions/s/transcript", nil).want(200, &page)
		return len(page.Entries)
	}
	key := func(k string) edit { return header("Idempotency-Key", k) }
	undo := object{"text": "/undo", "commands": true}
	first := r.call("POST", at, undo, key("k")).want(200)
	again := r.call("POST", at, undo, key("k")).want(200)
	expect.Equal(t, "the result again", again.text, first.text)
	expect.Equal(t, "entries of two turns", entries(), 4)
	r.call("POST", at, object{"text": "/retry", "commands": true}, key("k")).problem(409, gateway.IdempotencyConflict)
	r.call("POST", at, object{"text": "/undo", "commands": true, "as": "bob"}, key("k")).problem(409, gateway.IdempotencyConflict)
	r.call("POST", at, object{"text": "/undo"}, key("k")).problem(409, gateway.IdempotencyConflict) // as a message
	expect.Equal(t, "entries of two turns", entries(), 4)
	r.call("POST", at, undo, key("other")).want(200)
	expect.Equal(t, "entries of one turn", entries(), 2)
	r.call("POST", at, undo, key("k")).want(200)
	expect.Equal(t, "entries of one turn", entries(), 2)

	// A command that only reads is read again.
	status := object{"text": "/status", "commands": true}
	r.call("POST", at, status, key("s")).want(200)
	r.call("POST", at, status, key("s")).want(200)
}

// Routes of commands that act again when repeated take no key.
func TestCommandRoutesRefuseAKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	r.say("s", "one")
	for _, do := range []string{"undo", "retry", "new", "stop", "resume"} {
		p := r.call("POST", "/v1/sessions/s/"+do, nil, header("Idempotency-Key", "k")).problem(400, gateway.InvalidRequest)
		contains(t, "what to do instead", p.Detail, `"/`+do+`"`)
	}
	var page struct{ Entries []session.Entry }
	r.call("GET", "/v1/sessions/s/transcript", nil).want(200, &page)
	expect.Equal(t, "entries", len(page.Entries), 2)
}
