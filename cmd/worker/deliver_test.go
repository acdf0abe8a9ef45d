package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile"
	"turnstile/test/expect"
)

// A worker with a deliverer posts outcomes, in order. It posts none to a destination that an
// operator has paused, and continues once it is enabled.
func TestDeliverAndPause(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	posts := make(chan string, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case posts <- r.Header.Get("Webhook-Id"):
		default: // only the first is looked at
		}
	}))
	defer receiver.Close()
	file := filepath.Join(t.TempDir(), "destinations.json")
	text := fmt.Sprintf(`[{"name":"bot","url":%q,"secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],"private":true}]`, receiver.URL)
	expect.OK(t, os.WriteFile(file, []byte(text), 0o600))
	call(t, environ, "outbox", "pause", "bot").want(t, exitOK)
	w := echoWorker(t, url, "TURNSTILE_DELIVER=true", "TURNSTILE_GATEWAY_DESTINATIONS_FILE="+file)
	say := func(id string) {
		_, err := c.Session("a").Send(limited(t), turnstile.Message{ID: id, Text: "hello", ReplyTo: "bot"})
		expect.OK(t, err)
		_, err = c.Session("a").Wait(limited(t), id)
		expect.OK(t, err)
	}
	say("m1")
	list := objects(t, call(t, environ, "outbox", "a", "--json").want(t, exitOK).out)
	if len(list) != 2 || list[1]["state"] != "paused" || list[1]["attempts"] != 0. {
		t.Fatalf("%v", list)
	}
	call(t, environ, "outbox", "enable", "bot").want(t, exitOK)
	expect.Soon(t, "a delivery, for which later messages have deliverers look", func() bool {
		say(turnstile.NewMessageID())
		return len(posts) > 0
	})
	if first := <-posts; first != list[1]["id"] {
		t.Errorf("the first post is %s, want %s", first, list[1]["id"])
	}
	expect.Soon(t, "the outbox to be empty", func() bool {
		return strings.HasPrefix(call(t, environ, "outbox").want(t, exitOK).out, "No deliveries.")
	})
	w.stop(t)
}
