package gateway_test

import (
	"net/http"
	"testing"

	"turnstile/internal/http/gateway"
	"turnstile/test/expect"
)

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
