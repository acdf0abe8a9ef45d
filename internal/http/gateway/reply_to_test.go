package gateway_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/http/gateway"
	"turnstile/internal/outbox"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// destination is an entry of a file of destinations.
func destination(name, url, patterns string) string {
	return fmt.Sprintf(`{"name": %q, "url": %q, "private": true, "secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], "sessions": [%s]}`, name, url, patterns)
}

// withDestinations starts a gateway with a file of destinations.
func withDestinations(t *testing.T, entries []string, change ...func(*gateway.Config)) *rig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "destinations.json")
	expect.OK(t, os.WriteFile(path, []byte("["+strings.Join(entries, ",")+"]"), 0o600))
	file, err := outbox.OpenFile(path)
	expect.OK(t, err)
	r := rigWith(t, acl.Client(t, acl.Gateway), func(d *gateway.Deps) { d.Destinations = file }, change...)
	r.redis = redistest.New(t)
	return r
}

// deliveries returns a session's stored deliveries, as DESTINATION/MESSAGE.
func (r *rig) deliveries(sessionKey string) (list []string) {
	r.Helper()
	for d, err := range admin.NewClient(r.redis).Session(sessionKey).Deliveries(r.Context()) {
		expect.OK(r, err)
		list = append(list, d.Destination+"/"+strings.Join(d.Messages, ","))
	}
	return list
}

// A message's outcome goes to its reply_to, else to its session's, else where the file says.
func TestReplyTo(t *testing.T) {
	t.Parallel()
	r := withDestinations(t, []string{destination("bot", "http://127.0.0.1:1/", ""), destination("web", "http://127.0.0.1:1/", `"web:*"`)})
	r.worker()
	send := func(session, id string, body object) {
		t.Helper()
		body["text"] = "hi"
		r.call("POST", "/v1/sessions/"+session+"/messages", body, header("Idempotency-Key", id), header("Prefer", "wait=60")).want(200)
	}
	send("web:1", "own", object{"reply_to": "bot", "context": object{"chat": 42}})
	send("web:1", "pattern", object{"context": []int{1}})
	send("web:1", "none", object{"reply_to": "-"})
	r.call("POST", "/v1/sessions/web:1/reply-to", object{"reply_to": "bot"}).want(200)
	send("web:1", "session", object{})
	r.call("POST", "/v1/sessions/web:1/reply-to", object{"reply_to": ""}).want(200)
	send("web:1", "removed", object{})
	expect.List(t, "deliveries", r.deliveries("web:1"), "bot/own", "bot/session", "web/pattern", "web/removed")
	send("other", "nowhere", object{})
	expect.List(t, "no deliveries", r.deliveries("other"))

	const path = "/v1/sessions/web:2/messages"
	for _, bad := range []object{
		{"reply_to": "unknown"}, {"reply_to": "A b"}, {"reply_to": "bot", "context": strings.Repeat("x", 2048)},
	} {
		bad["text"] = "hi"
		r.call("POST", path, bad).problem(400, gateway.InvalidRequest)
	}
	r.call("POST", path, `{"text": "hi", "reply_to": 1}`).problem(400, gateway.InvalidJSON)
	for _, bad := range []string{"unknown", "A b", "-"} {
		r.call("POST", "/v1/sessions/web:2/reply-to", object{"reply_to": bad}).problem(400, gateway.InvalidRequest)
	}
	r.call("POST", "/v1/sessions/web:2/reply-to", object{"to": "bot"}).problem(400, gateway.UnknownFields)
	if n := r.redis.LLen(t.Context(), "asynq:{session:web:2}:pending").Val(); n != 0 {
		t.Errorf("%d messages are stored", n)
	}
	anyName := rigOn(t, r.redis)
	anyName.call("POST", path, object{"text": "hi", "reply_to": "unknown"}).want(202)
}

// A message's deliver_by counts, whether or not the message names its destination.
func TestDeliverBy(t *testing.T) {
	t.Parallel()
	r := withDestinations(t, []string{destination("web", "http://127.0.0.1:1/", `"web:*"`)})
	const path = "/v1/sessions/web:1/messages"
	for id, by := range map[string]string{"time": "2100-01-01T01:00:00+01:00", "duration": "10m"} {
		for range 2 { // the second is the same message, although its times differ
			r.call("POST", path, object{"text": "hi", "deliver_by": by}, header("Idempotency-Key", id)).want(202)
		}
	}
	stored := r.redis.HGetAll(t.Context(), rediskey.For("web:1").Deliveries()).Val()
	expect.Equal(t, "a time", stored["deliver_by time"], "4102444800000")
	now := r.redis.Time(t.Context()).Val()
	if by, err := strconv.ParseInt(stored["deliver_by duration"], 10, 64); err != nil || by <= now.UnixMilli() || by > now.Add(10*time.Minute).UnixMilli() {
		t.Errorf("deliver by %q, now it is %d", stored["deliver_by duration"], now.UnixMilli())
	}
	for _, bad := range []string{"-1m", "0s", "soon", "2100-01-01"} {
		contains(t, "the problem", r.call("POST", path, object{"text": "hi", "deliver_by": bad}).problem(400, gateway.InvalidRequest).Detail, "deliver_by")
	}
}

// A destination that does not admit a session counts as unknown, however messages name it.
func TestSessionsThatADestinationDoesNotAdmit(t *testing.T) {
	t.Parallel()
	const mine = `"from": ["acme:*"], "name"`
	r := withDestinations(t, []string{
		strings.Replace(destination("acme", "http://127.0.0.1:1/", ""), `"name"`, mine, 1), destination("telegram", "http://127.0.0.1:1/", `"telegram:*"`),
		destination("all", "http://127.0.0.1:1/", ""),
	})
	for path, want := range map[string][]string{
		"/v1/sessions/acme:1/": {"acme", "all"}, "/v1/sessions/telegram:1/": {"telegram", "all"}, "/v1/sessions/web:1/": {"all"},
	} {
		for _, to := range []string{"acme", "telegram", "all", "unknown"} {
			message := r.call("POST", path+"messages", object{"text": "hi", "reply_to": to, "context": object{"chat": 42}})
			session := r.call("POST", path+"reply-to", object{"reply_to": to})
			if slices.Contains(want, to) {
				message.want(202)
				session.want(200)
				continue
			}
			said := message.problem(400, gateway.InvalidRequest)
			session.problem(400, gateway.InvalidRequest)
			unknown := r.call("POST", path+"messages", object{"text": "hi", "reply_to": "unknown"}).problem(400, gateway.InvalidRequest)
			expect.Equal(t, "the problem", strings.Replace(said.Detail, to, "unknown", 1), unknown.Detail)
		}
	}
}

// A session with a full outbox refuses messages with a destination.
func TestOutboxFull(t *testing.T) {
	t.Parallel()
	rdb := redistest.New(t)
	r := rigWith(t, rdb, func(d *gateway.Deps) {
		d.Client = turnstile.NewClient(rdb, turnstile.ClientConfig{Limits: session.Limits{Outbox: 1}})
	})
	const path = "/v1/sessions/s/messages"
	body := object{"text": "hi", "reply_to": "bot"}
	r.call("POST", path, body).want(202)
	a := r.call("POST", path, body)
	a.problem(429, gateway.OutboxFull)
	expect.Equal(t, "Retry-After", a.Header.Get("Retry-After"), "5")
	r.call("POST", path, object{"text": "hi"}).want(202)
}
