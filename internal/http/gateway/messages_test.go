package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

type receipt struct {
	Session, ID, Status, State, Reply string
	Position                          int
	Invalid                           bool
}

func TestMessageIsStoredAndItsOutcomeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var got receipt
	a := r.call("POST", "/v1/sessions/a:b/messages", object{"text": "hello", "meta": object{"k": "v"}, "as": "alice", "name": "Alice"}).want(202, &got)
	expect.Equal(t, "status", got.Status, "accepted")
	expect.Equal(t, "location", a.Header.Get("Location"), "/v1/sessions/a:b/messages/"+got.ID)
	var m gateway.Message
	r.call("GET", "/v1/sessions/a:b/messages/"+got.ID, nil).want(200, &m)
	expect.Equal(t, "state", m.State, "pending")
	if m.Outcome != nil {
		t.Errorf("outcome %+v", m.Outcome)
	}
	r.worker()
	r.call("GET", "/v1/sessions/a:b/messages/"+got.ID+"?wait=60s", nil).want(200, &m)
	expect.Equal(t, "state", m.State, "completed")
	expect.Equal(t, "reply", m.Outcome.Reply, "echo: hello")
	r.call("GET", "/v1/sessions/a:b/messages/other?wait=1s", nil).problem(404, gateway.UnknownMessage)
	var page struct{ Entries []session.Entry }
	r.call("GET", "/v1/sessions/a:b/transcript", nil).want(200, &page)
	expect.Equal(t, "meta", page.Entries[0].Meta["k"]+" "+page.Entries[0].Meta["sender"], "v local/alice")
	expect.Equal(t, "name", page.Entries[0].Meta["sender_name"], "Alice")
}

func TestPreferWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/sessions/s/messages"
	a := r.call("POST", path, object{"text": "hi"}, header("Prefer", "respond-async, wait=1")).want(202)
	expect.Equal(t, "applied", a.Header.Get("Preference-Applied"), "wait=1")
	r.worker()
	var o session.Outcome
	a = r.call("POST", path, object{"text": "tool=look hi"}, header("Prefer", `wait="60"`)).want(200, &o)
	expect.Equal(t, "reply", o.Reply, "echo: hi")
	expect.Equal(t, "location", a.Header.Get("Location"), path+"/"+o.ID)
	r.call("POST", path, object{"text": "fail=final"}, header("Prefer", "wait=60")).want(200, &o)
	expect.Equal(t, "status", o.Status, session.StatusFailed)
	for _, long := range []string{"wait=61", "wait=70000", "wait=99999999999999999999"} {
		a = r.call("POST", path, object{"text": "hi"}, header("Prefer", long)).want(200)
		expect.Equal(t, "not longer than "+long, a.Header.Get("Preference-Applied"), "wait=60")
	}
	for _, odd := range []string{"wait", "wait=", "wait=-1", "wait=x", "wait=1.5"} {
		a := r.call("POST", path, object{"text": "hi"}, header("Prefer", odd)).want(202)
		expect.Equal(t, odd, a.Header.Get("Preference-Applied"), "")
	}
}

// The bound of waits holds for ?wait and for Prefer, and is in the response.
func TestQueryWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/sessions/s/messages"
	var got receipt
	r.call("POST", path, object{"text": "sleep=300ms hi"}).want(202, &got)
	for wait, applied := range map[string]string{"1ms": "wait=1", "0s": "", "": ""} {
		a := r.call("GET", path+"/"+got.ID+"?wait="+wait, nil).want(200)
		expect.Equal(t, wait, a.Header.Get("Preference-Applied"), applied)
	}
	r.worker()
	var m gateway.Message
	a := r.call("GET", path+"/"+got.ID+"?wait=1h", nil).want(200, &m)
	expect.Equal(t, "state", m.State, "completed")
	expect.Equal(t, "not longer than 1h", a.Header.Get("Preference-Applied"), "wait=60")
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const path = "/v1/sessions/s/messages"
	var first, again receipt
	key := header("Idempotency-Key", "order-1")
	r.call("POST", path, object{"text": "one"}, key).want(202, &first)
	expect.Equal(t, "id", first.ID, "order-1")
	r.call("POST", path, object{"text": "one"}, header("Idempotency-Key", `"order-1"`)).want(202, &again)
	expect.Equal(t, "again", again.Status+" "+again.State, "duplicate pending")
	r.call("POST", path, object{"text": "two"}, key).problem(409, gateway.IdempotencyConflict)
	r.call("POST", path, object{"text": "one", "as": "other"}, key).problem(409, gateway.IdempotencyConflict)
	r.worker()
	var o session.Outcome
	r.call("POST", path, object{"text": "one"}, key, header("Prefer", "wait=60")).want(200, &o)
	expect.Equal(t, "attached", o.Reply, "echo: one")
	r.call("POST", path, object{"text": "one"}, key).want(200, &o)
	expect.Equal(t, "stored", o.Reply, "echo: one")
	expect.OK(t, r.redis.Del(t.Context(), "asynq:{session:s}:t:043a718f-order-1").Err())
	for _, k := range r.redis.Keys(t.Context(), "asynq:{session:s}:t:*").Val() {
		expect.OK(t, r.redis.Del(t.Context(), k).Err())
	}
	r.call("POST", path, object{"text": "one"}, key).problem(410, gateway.ResultExpired)

	odd := header("Idempotency-Key", "grüße, \"du\" / "+strings.Repeat("x", 300))
	r.call("POST", path, object{"text": "one"}, odd).want(202, &first)
	if !strings.HasPrefix(first.ID, "k-") || len(first.ID) != 66 {
		t.Errorf("id %s", first.ID)
	}
	r.call("POST", path, object{"text": "two"}, odd).problem(409, gateway.IdempotencyConflict)
	r.call("POST", path, object{"text": "one"}, header("Idempotency-Key", " ")).problem(400, gateway.InvalidRequest)
}

// The request of a message that Redis loses while its sender waits is not told that the message ran. One whose task an
// operator has deleted was accepted.
func TestLostMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, c := range map[string]struct {
		gone   string
		status int
		code   gateway.Code
	}{
		"lost":    {"*{session:lost}*", 503, gateway.MessageLost},
		"deleted": {"asynq:{session:deleted}:*", 410, gateway.ResultExpired},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan answer, 1)
			go func() {
				got <- r.call("POST", "/v1/sessions/"+name+"/messages", object{"text": "one"}, header("Prefer", "wait=60"), header("Idempotency-Key", "k"))
			}()
			var keys []string
			expect.Soon(t, "the message is stored", func() bool {
				keys = r.redis.Keys(t.Context(), c.gone).Val()
				return len(keys) > 0
			})
			expect.OK(t, r.redis.Del(t.Context(), keys...).Err())
			expect.Received(t, "the response", got).problem(c.status, c.code)
		})
	}
}

func TestNewSession(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[
		{"name": "web", "sha256": "SUM", "sessions": ["web:*"], "new": "web:", "may": ["send", "read"]},
		{"name": "old", "sha256": "SUM", "sessions": ["old:*"], "may": ["send", "read"]}]`)).as("web")
	var one, two, again receipt
	r.call("POST", "/v1/messages", object{"text": "hi"}).want(202, &one)
	r.call("POST", "/v1/messages", object{"text": "hi"}, header("Idempotency-Key", "k")).want(202, &two)
	r.call("POST", "/v1/messages", object{"text": "hi"}, header("Idempotency-Key", "k")).want(202, &again)
	if !strings.HasPrefix(one.Session, "web:") || one.Session == two.Session || two.Session != again.Session || again.Status != "duplicate" {
		t.Errorf("%+v %+v %+v", one, two, again)
	}
	r.call("POST", "/v1/messages", object{"text": "other"}, header("Idempotency-Key", "k")).problem(409, gateway.IdempotencyConflict)
	r.as("old").call("POST", "/v1/messages", object{"text": "hi"}).problem(403, gateway.Forbidden)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	const path = "/v1/sessions/s/messages"
	r.call("POST", path, object{"text": "sleep=1h"}, header("Idempotency-Key", "long")).want(202)
	expect.Soon(t, "the turn", func() bool {
		var m gateway.Message
		r.call("GET", path+"/long", nil).want(200, &m)
		return m.State == "running"
	})
	r.call("POST", path, object{"text": "x", "mode": "reject"}).problem(409, gateway.Busy)
	r.call("POST", "/v1/sessions/s/queue", object{"cap": 1, "drop": "new"}).want(200)
	var got receipt
	r.call("POST", path, object{"text": "x"}).want(202, &got)
	expect.Equal(t, "position", got.Position, 2)
	p := r.call("POST", path, object{"text": "x"})
	p.problem(429, gateway.FollowupsFull)
	expect.Equal(t, "Retry-After", p.Header.Get("Retry-After"), "5")
	r.call("POST", "/v1/sessions/other/messages", object{"text": "x", "delay": "1h"}).want(202, &got)
	expect.Equal(t, "status", got.Status, "scheduled")
	r.call("DELETE", "/v1/sessions/s", nil).problem(409, gateway.Busy)
	r.call("POST", "/v1/sessions/s/undo", nil).problem(409, gateway.Busy)
}

// A text over HTTP is data, unless the request says otherwise and the token may control.
func TestSlashTextsAreData(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[
		{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read"]},
		{"name": "boss", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "control"]}]`))
	r.worker()
	const path = "/v1/sessions/s/messages"
	for _, text := range []string{"/stop", "/stat", "//new", "/new", "/status now"} {
		expect.Equal(t, text, r.as("bot").say("s", text), "echo: "+text)
	}
	r.as("bot").call("POST", path, object{"text": "/status", "commands": true}).problem(403, gateway.Forbidden)
	var got receipt
	r.as("boss").call("POST", path, object{"text": "/title Nice", "commands": true}).want(200, &got)
	expect.Equal(t, "status", got.Status, "answered")
	r.as("boss").call("POST", path, object{"text": "/stat", "commands": true}).want(200, &got)
	expect.Equal(t, "invalid", got.Invalid, true)
	expect.Equal(t, "as text", r.as("boss").say("s", "/stop"), "echo: /stop")
}

// HTML and control characters are data.
func TestTextsComeBackAsData(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worker()
	text := "<script>alert(1)</script>\x00\x1b[31m\u202e\u2028\r\n\n</html> \"'&"
	var o session.Outcome
	a := r.call("POST", "/v1/sessions/s/messages", object{"text": text}, header("Prefer", "wait=60")).want(200, &o)
	expect.Equal(t, "reply", o.Reply, "echo: "+text)
	expect.Equal(t, "sniffing", a.Header.Get("X-Content-Type-Options"), "nosniff")
	for _, c := range a.text[:len(a.text)-1] {
		if c < ' ' || c == '<' || c == '\u2028' {
			t.Errorf("the JSON has a raw %q: %s", c, a.text)
		}
	}
	s := r.stream("s", "")
	ended := s.until("turn_ended")
	expect.Equal(t, "reply in the stream", ended.Reply, "echo: "+text)
}

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

func TestCancelMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, `[
		{"name": "bot", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read"]},
		{"name": "boss", "sha256": "SUM", "sessions": ["*"], "may": ["control"]}]`))
	bot, boss := r.as("bot"), r.as("boss")
	r.worker()
	const path = "/v1/sessions/s/messages"
	send := func(id, text string) {
		t.Helper()
		bot.call("POST", path, object{"text": text, "mode": "queue"}, header("Idempotency-Key", id)).want(202)
	}
	send("long", "sleep=1h")
	s := bot.stream("s", "")
	s.until("turn_started")
	send("waits", "two")
	send("stays", "three")
	bot.call("DELETE", path+"/waits", nil).problem(403, gateway.Forbidden)
	var m gateway.Message
	for range 2 { // it may be repeated
		boss.call("DELETE", path+"/waits", nil).want(200, &m)
		expect.Equal(t, "state", string(m.State)+" "+string(m.Outcome.Status), "archived stopped")
	}
	boss.call("DELETE", path+"/long", nil).problem(409, gateway.Running)
	boss.call("DELETE", path+"/long?running=false", nil).problem(409, gateway.Running)
	boss.call("DELETE", path+"/none", nil).problem(404, gateway.UnknownMessage)
	for _, bad := range []string{"/long?running=yes", "/long?now=true", "/a%20b"} {
		boss.call("DELETE", path+bad, nil).problem(400, gateway.InvalidRequest)
	}
	a := boss.call("DELETE", path+"/long?running=true", nil)
	if a.StatusCode != http.StatusOK {
		a.want(202)
	}
	bot.call("GET", path+"/long?wait=60s", nil).want(200, &m)
	expect.Equal(t, "ended", string(m.Outcome.Status), "stopped")
	bot.call("GET", path+"/stays?wait=60s", nil).want(200, &m)
	expect.Equal(t, "the line goes on", m.Outcome.Reply, "echo: three")
	boss.call("DELETE", path+"/stays", nil).want(200, &m)
	expect.Equal(t, "has ended", m.State, "completed")
}

// A session with undelivered outcomes is forgotten only on demand.
func TestForgetUndelivered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const at = "/v1/sessions/s"
	body := object{"text": "hi", "reply_to": "bot"}
	r.call("POST", at+"/messages", body).want(202)
	p := r.call("DELETE", at, nil).problem(409, gateway.Undelivered)
	expect.Equal(t, "owed", p.Owed, 1)
	r.worker()
	r.call("POST", at+"/messages", body, header("Prefer", "wait=60")).want(200)
	p = r.call("DELETE", at, nil).problem(409, gateway.Undelivered)
	expect.Equal(t, "stored", p.Stored, 2)
	r.call("DELETE", at+"?undelivered=keep", nil).problem(400, gateway.InvalidRequest)
	r.call("DELETE", at+"?undelivered=drop", nil).want(204)
	r.call("GET", at, nil).problem(404, gateway.UnknownSession)
}
