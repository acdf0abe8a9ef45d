package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"turnstile/internal/http/gateway"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/expect"
)

const operators = `[
	{"name": "root", "sha256": "SUM", "sessions": ["*"], "may": ["send", "read", "operate"]},
	{"name": "tenant", "sha256": "SUM", "sessions": ["web:*"], "may": ["read", "operate"]},
	{"name": "reader", "sha256": "SUM", "sessions": ["*"], "may": ["read"]}]`

func TestOutbox(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, operators))
	root := r.as("root")
	r.worker()
	for _, key := range []string{"web:1", "other"} {
		root.call("POST", "/v1/sessions/"+key+"/messages", object{"text": "hi", "reply_to": "bot"}, header("Prefer", "wait=60"), header("Idempotency-Key", "m")).want(200)
	}
	root.call("POST", "/v1/sessions/web:1/messages", object{"text": "again", "reply_to": "bot"}, header("Prefer", "wait=60")).want(200)
	var m gateway.Message
	root.call("GET", "/v1/sessions/web:1/messages/m", nil).want(200, &m)
	expect.Equal(t, "deliveries", fmt.Sprint(len(m.Deliveries), m.Deliveries[0].Destination, m.Deliveries[0].Type), "1botmessage.done")
	var list struct {
		Deliveries []gateway.Delivery
		More       bool
	}
	sizes := func(token, query string) string {
		t.Helper()
		r.as(token).call("GET", "/v1/outbox"+query, nil).want(200, &list)
		return fmt.Sprint(len(list.Deliveries), list.More)
	}
	expect.Equal(t, "all", sizes("root", ""), "3 false")
	expect.Equal(t, "a page", sizes("root", "?limit=2"), "2 true")
	expect.Equal(t, "of one", sizes("root", "?session=other"), "1 false")
	expect.Equal(t, "of a tenant", sizes("tenant", ""), "2 false")
	expect.Equal(t, "of none", sizes("tenant", "?session=web:2"), "0 false")
	r.as("tenant").call("GET", "/v1/outbox?session=other", nil).problem(404, gateway.UnknownSession)
	r.as("reader").call("GET", "/v1/outbox", nil).problem(403, gateway.Forbidden)
	for _, bad := range []string{"session=a/b", "limit=0", "state=x"} {
		root.call("GET", "/v1/outbox?"+bad, nil).problem(400, gateway.InvalidRequest)
	}

	k := rediskey.For("web:1") // the first one is given up
	record := r.redis.ZRangeWithScores(t.Context(), k.Outbox(), 0, 0).Val()[0]
	expect.OK(t, r.redis.ZRem(t.Context(), k.Outbox(), record.Member).Err())
	expect.OK(t, r.redis.ZAdd(t.Context(), k.Undelivered(), record).Err())
	sizes("tenant", "")
	expect.Equal(t, "given up", list.Deliveries[1].GivenUp, true)
	var got struct{ Redriven int }
	redrive := func(token string, body object) answer { return r.as(token).call("POST", "/v1/outbox/redrive", body) }
	redrive("tenant", object{"session": "web:1", "destination": "other"}).want(200, &got)
	expect.Equal(t, "of another destination", got.Redriven, 0)
	redrive("tenant", object{"session": "web:1"}).want(200, &got)
	expect.Equal(t, "redriven", got.Redriven, 1)
	redrive("tenant", object{"session": "other"}).problem(404, gateway.UnknownSession)
	redrive("reader", object{"session": "web:1"}).problem(403, gateway.Forbidden)
	redrive("root", object{"session": ""}).problem(400, gateway.InvalidRequest)
	redrive("root", object{"session": "web:1", "destination": "A"}).problem(400, gateway.InvalidRequest)
	redrive("root", object{"session": "web:1", "to": "a"}).problem(400, gateway.UnknownFields)
}

func TestDestinations(t *testing.T) {
	t.Parallel()
	verify, err := standardwebhooks.NewWebhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	expect.OK(t, err)
	types := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Type string }
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = verify.Verify(text, r.Header)
		}
		if err == nil {
			err = json.Unmarshal(text, &body)
		}
		if err != nil {
			t.Error(err)
		}
		types <- body.Type
		if r.URL.Path == "/bad" {
			http.Error(w, "no \x1b[31m", http.StatusInternalServerError)
		}
	}))
	defer receiver.Close()
	r := withDestinations(t, []string{
		destination("bot", receiver.URL+"/secret-path", `"telegram:*"`), destination("bad", receiver.URL+"/bad", ""), destination("gone", "http://127.0.0.1:1/", ""),
	}, withTokens(t, operators))
	root := r.as("root")
	const at = "/v1/destinations/"
	var tested struct {
		OK     bool
		Status int
		Error  string
	}
	root.call("POST", at+"bot/test", nil).want(200, &tested)
	expect.Equal(t, "test", fmt.Sprint(tested.OK, tested.Status, <-types), "true 200ping")
	root.call("POST", at+"bad/test", object{}).want(200, &tested)
	expect.Equal(t, "failure", fmt.Sprint(tested.OK, tested.Status, tested.Error), "false 500500 Internal Server Error: no \ufffd[31m")
	root.call("POST", at+"gone/test", nil).want(200, &tested)
	expect.Equal(t, "no response", fmt.Sprint(tested.OK, tested.Status), "false 0")
	contains(t, "reason", tested.Error, "refused")

	root.call("POST", at+"bot/pause", nil).want(200)
	var list struct {
		Destinations []struct {
			Name, Host, Why string
			Sessions        []string
			Paused          bool
		}
	}
	a := root.call("GET", "/v1/destinations", nil).want(200, &list)
	bot := list.Destinations[0]
	expect.Equal(t, "paused", fmt.Sprint(bot.Name, bot.Sessions, bot.Paused, bot.Why, "http://"+bot.Host == receiver.URL, len(list.Destinations)), "bot[telegram:*] truepaused by roottrue 3")
	for _, secret := range []string{"secret-path", "whsec_"} {
		if strings.Contains(a.text, secret) {
			t.Errorf("the list has %s", secret)
		}
	}
	root.call("POST", at+"bot/enable", nil).want(200)
	root.call("GET", "/v1/destinations", nil).want(200, &list)
	for _, action := range []string{"pause", "enable", "test"} {
		root.call("POST", at+"unknown/"+action, nil).problem(404, gateway.UnknownDestination)
		root.call("POST", at+"A/"+action, nil).problem(400, gateway.InvalidRequest)
		root.call("POST", at+"bot/"+action, object{"now": true}).problem(400, gateway.UnknownFields)
		r.as("tenant").call("POST", at+"bot/"+action, nil).problem(403, gateway.Forbidden)
		r.as("reader").call("POST", at+"bot/"+action, nil).problem(403, gateway.Forbidden)
	}
	r.as("tenant").call("GET", "/v1/destinations", nil).problem(403, gateway.Forbidden)
	root.call("GET", "/v1/destinations?page=1", nil).problem(400, gateway.InvalidRequest)

	without := rigOn(t, r.redis)
	without.call("POST", at+"any/pause", nil).want(200)
	without.call("POST", at+"any/test", nil).problem(404, gateway.UnknownDestination)
	without.call("GET", "/v1/destinations", nil).want(200, &list)
	expect.Equal(t, "known by their state", fmt.Sprint(len(list.Destinations), list.Destinations[0].Name, list.Destinations[0].Paused), "1anytrue")
}

// A session with a key of a wrong type is named in the lists of all, and refused alone: its caller can do nothing.
func TestBrokenSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens(t, operators))
	r.worker()
	root := r.as("root")
	for _, key := range []string{"web:1", "other"} {
		root.call("POST", "/v1/sessions/"+key+"/messages", object{"text": "fail=final x"}, header("Prefer", "wait=60")).want(200)
	}
	k := rediskey.For("other")
	for _, key := range []string{k.Run(), k.Archived()} {
		expect.OK(t, r.redis.Set(t.Context(), key, "x", 0).Err())
	}
	root.call("GET", "/v1/sessions/other", nil).problem(503, gateway.RedisRefused)
	var page struct{ Sessions []gateway.Listed }
	root.call("GET", "/v1/sessions?prefix=o", nil).want(200, &page)
	expect.Equal(t, "in the list", fmt.Sprint(page.Sessions[0].State, " ", page.Sessions[0].Broken), "broken "+k.Run())
	var list struct {
		Dead   []struct{ Session string }
		Broken []string
	}
	root.call("GET", "/v1/dead", nil).want(200, &list)
	expect.Equal(t, "dead letters", fmt.Sprint(list.Dead), "[{web:1}]")
	expect.List(t, "left out", list.Broken, "other")
	list.Broken = nil
	r.as("tenant").call("GET", "/v1/dead", nil).want(200, &list)
	expect.List(t, "another tenant's, left out", list.Broken)
	root.call("GET", "/v1/dead?session=other", nil).problem(503, gateway.RedisRefused)
}
