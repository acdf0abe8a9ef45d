package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// deliveriesIn ends four messages of a session. Of bot's, m1 was given up, m2 is tried again in two
// hours, and m3 waits after it. m4 waits for web.
func deliveriesIn(t *testing.T, url string, c *actors.Client, key string) {
	t.Helper()
	rdb := newClient(t, acl.As(t, url, acl.Worker))
	w, err := actors.NewConsumer(rdb, protocol.Config{Worker: "w"})
	expect.OK(t, err)
	for _, m := range [][2]string{{"m1", "bot"}, {"m2", "bot"}, {"m3", "bot"}, {"m4", "web"}} {
		_, err := c.Session(key).Send(limited(t), turnstile.Message{ID: m[0], Text: "hello", ReplyTo: m[1]})
		expect.OK(t, err)
		holds, err := w.Claim(limited(t), []string{key})
		if err != nil || len(holds) != 1 {
			t.Fatal(holds, err)
		}
		_, err = holds[0].Finish(limited(t), protocol.End{Status: session.StatusDone, Reply: "hi"})
		expect.OK(t, err)
	}
	taken, err := deliveries.TakeLines(limited(t), rdb, key, []deliveries.Line{{Destination: "bot", MaxAge: time.Hour}, {Destination: "web", MaxAge: time.Hour}}, time.Minute)
	expect.OK(t, err)
	expect.Equal(t, "taken", len(taken.Deliveries), 4)
	for i, a := range []deliveries.Ack{
		{Verdict: deliveries.GiveUp, Why: "refused 5 times: 422\nUnprocessable \x1b[31m"}, {Verdict: deliveries.Again, Wait: 2 * time.Hour, Why: "503 Service Unavailable"},
	} {
		a.Delivery = taken.Deliveries[i]
		ok, _, err := a.Do(limited(t), rdb)
		expect.OK(t, err)
		expect.Equal(t, "the lease is valid", ok, true)
	}
}

// changing matches the values in the list that differ between runs: the webhook-id and the age.
var changing = regexp.MustCompile(`(\S+ \S+) [0-9a-f]{8}-\d+ (\S+ \S+) \ds `)

func TestOutboxList(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	send(t, c, "empty", "hello")
	for _, args := range []string{"outbox", "outbox list", "outbox ls", "outbox list empty", "outbox empty"} {
		if r := call(t, environ, strings.Fields(args)...).want(t, exitOK); r.out != "No deliveries.\n" {
			t.Errorf("%s: %q", args, r.out)
		}
	}
	if r := call(t, environ, "outbox", "--json").want(t, exitOK); r.out != "" {
		t.Errorf("outbox --json of nothing: %q", r.out)
	}
	deliveriesIn(t, url, c, "a")
	deliveriesIn(t, url, c, "b")
	call(t, environ, "outbox", "pause", "web").want(t, exitOK)

	r := call(t, environ, "outbox", "a").want(t, exitOK)
	var lines []string
	for line := range strings.Lines(r.out) {
		lines = append(lines, changing.ReplaceAllString(strings.Join(strings.Fields(line), " "), "$1 ID $2 0s "))
	}
	if want := []string{
		"DESTINATION STATE REASON", "web paused until it is enabled paused by an operator", "",
		"SESSION DESTINATION ID TYPE MESSAGES AGE STATE ATTEMPTS ERROR",
		"a bot ID message.done m2 0s again in 1h 1 503 Service Unavailable",
		"a bot ID message.done m3 0s waits 0 -",
		"a web ID message.done m4 0s paused 0 -",
		"a bot ID message.done m1 0s given up 0 refused 5 times: 422 …",
	}; !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	for args, want := range map[string]int{"outbox list b --json": 4, "outbox --json": 8} {
		list := objects(t, call(t, environ, strings.Fields(args)...).want(t, exitOK).out)
		if len(list) != want+1 || list[0]["destination"] != "web" || list[0]["state"] != "paused" {
			t.Fatalf("%s: %v", args, list)
		}
		states := map[any]any{}
		for _, o := range list[1:] {
			take(t, o, "at", "id", "sequence")
			if age, ok := o["age_ms"].(float64); !ok || age < 0 || o["session"] != "b" && want == 4 || o["type"] != "message.done" {
				t.Errorf("%s: %v", args, o)
			}
			states[o["messages"].([]any)[0]] = o["state"]
			if (o["next_at"] != nil) != (o["state"] == "retrying") {
				t.Errorf("%s: %v", args, o)
			}
		}
		if text := fmt.Sprint(states); text != "map[m1:undelivered m2:retrying m3:waiting m4:paused]" {
			t.Errorf("%s: %s", args, text)
		}
	}
}

func TestOutboxRedriveAndDrop(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	for _, key := range []string{"a", "b", "c"} {
		deliveriesIn(t, url, c, key)
	}
	steps := []struct{ args, out string }{
		{"redrive a --to web", "Session a has no deliveries that were given up.\n"},
		{"redrive a --to bot", "a: 1 delivery requeued.\n"},
		{"redrive a", "Session a has no deliveries that were given up.\n"},
		{"redrive a --json", `{"redriven":0,"session":"a"}` + "\n"},
		{"drop b --json", `{"dropped":1,"session":"b"}` + "\n"},
		{"drop --all --to web", "No session has deliveries that were given up.\n"},
		{"redrive --all --to bot", "c: 1 delivery requeued.\n"},
		{"drop --all", "No session has deliveries that were given up.\n"},
	}
	for _, s := range steps {
		if r := call(t, environ, append([]string{"outbox"}, strings.Fields(s.args)...)...).want(t, exitOK); r.out != s.out {
			t.Errorf("%s: %q, want %q", s.args, r.out, s.out)
		}
	}
	for key, want := range map[string]string{"a": "m2 m3 m1 m4", "b": "m2 m3 m4", "c": "m2 m3 m1 m4"} {
		var left []string
		for d, err := range c.Operate(key).Deliveries(limited(t)) {
			expect.OK(t, err)
			left = append(left, d.Messages...)
		}
		expect.Equal(t, key, strings.Join(left, " "), want)
	}

	for _, key := range []string{"d", "e"} {
		deliveriesIn(t, url, c, key)
	}
	cmd, s := process(t, environ, "outbox", "drop", "--all")
	exits(t, cmd, s, exitOK)
	if want := "2 deliveries of 2 sessions deleted.\n"; !strings.HasSuffix(s.String(), want) {
		t.Errorf("%q does not end in %q", s, want)
	}
}

func TestDestinations(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	rdb := newClient(t, url)
	for _, s := range []struct{ args, out string }{
		{"enable bot", "Destination bot was neither paused nor disabled.\n"},
		{"pause bot", "Destination bot is paused. Its deliveries wait until: worker outbox enable bot\n"},
		{"pause bot --json", `{"destination":"bot","state":"paused","why":"paused by an operator"}` + "\n"},
		{"enable bot", "Destination bot is enabled. Its deliveries continue within about two seconds.\n"},
		{"enable bot --json", `{"destination":"bot","state":"enabled"}` + "\n"},
	} {
		if r := call(t, environ, append([]string{"outbox"}, strings.Fields(s.args)...)...).want(t, exitOK); r.out != s.out {
			t.Errorf("%s: %q, want %q", s.args, r.out, s.out)
		}
	}
	// For a deliverer, a pause without a time is ended only by an operator.
	call(t, environ, "outbox", "pause", "bot").want(t, exitOK)
	list, err := admin.NewClient(rdb).Destinations(limited(t))
	expect.OK(t, err)
	expect.Equal(t, "destinations", len(list), 1)
	expect.Equal(t, "an operator's pause", list[0], admin.Destination{Name: "bot", Paused: true, Why: "paused by an operator"})

	at := time.Now().Add(time.Hour)
	for name, s := range map[string]deliveries.DestinationState{
		"gone": {Disabled: true, Why: "410 Gone", At: at.Add(-2 * time.Hour).UnixMilli()},
		"sick": {Paused: true, Why: "503 Service Unavailable", At: at.UnixMilli()},
		"well": {Paused: true, Why: "connection refused", At: at.Add(-2 * time.Hour).UnixMilli()},
	} {
		expect.OK(t, deliveries.SetDestination(limited(t), rdb, name, s))
	}
	clock := func(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05") }
	got := rows(call(t, environ, "outbox").want(t, exitOK).out)
	for name, want := range map[string]string{
		"bot": "paused until it is enabled paused by an operator", "gone": "disabled since " + clock(at.Add(-2*time.Hour)) + " 410 Gone",
		"sick": "paused until " + clock(at) + " 503 Service Unavailable", "well": "is tried again connection refused",
	} {
		expect.Equal(t, name, got[name], want)
	}
}

func TestOutboxOfAnUnknownSession(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	for _, args := range []string{"outbox nosuch", "outbox list nosuch --json", "outbox redrive nosuch", "outbox drop nosuch --json"} {
		r := call(t, []string{"REDIS_URL=" + url}, strings.Fields(args)...).want(t, exitOther)
		if r.out != "" || r.err != "worker: session nosuch is unknown: it never had a message, or it was forgotten\n" {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

func TestOutboxUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"outbox a b":                "outbox list takes at most one SESSION, but got 2; see worker outbox --help",
		"outbox redrive":            "outbox redrive wants a SESSION, or --all for those of all sessions; see worker outbox redrive --help",
		"outbox drop --to bot":      "outbox drop wants a SESSION, or --all for those of all sessions; see worker outbox drop --help",
		"outbox drop --all a":       "outbox drop: both --all and a SESSION: use one of them; see worker outbox drop --help",
		"outbox redrive a m1":       "outbox redrive takes one SESSION, but got 2; see worker outbox redrive --help",
		"outbox list a/b":           `invalid session key "a/b": use letters, digits and ._:@+=~- only, the first a letter or digit`,
		"outbox drop a --to Bot":    `invalid destination "Bot": use up to 64 of a-z, 0-9, - and _, beginning with a letter or digit`,
		"outbox drop --all --to=":   `invalid destination "": use up to 64 of a-z, 0-9, - and _, beginning with a letter or digit`,
		"outbox pause":              "outbox pause takes one DESTINATION, but got 0; see worker outbox pause --help",
		"outbox enable a b":         "outbox enable takes one DESTINATION, but got 2; see worker outbox enable --help",
		"outbox pause Bot":          `invalid destination "Bot": use up to 64 of a-z, 0-9, - and _, beginning with a letter or digit`,
		"outbox pause bot --nosuch": "unknown flag: --nosuch; see worker outbox pause --help",
	} {
		r := call(t, nil, strings.Fields(args)...).want(t, exitUsage)
		if r.err != "worker: "+want+"\n" || r.out != "" {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for _, args := range []string{"outbox", "outbox drop --all", "outbox redrive a", "outbox pause bot"} {
		r := call(t, nil, append(strings.Fields(args), "--redis", "redis://127.0.0.1:1/0")...).want(t, exitOther)
		if strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "refuses the connection") {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

func TestShowOwing(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	expect.OK(t, c.Session("a").SetReplyTo(limited(t), "web"))
	if r := call(t, environ, "show", "a").want(t, exitOK); !strings.Contains(r.out, "reply to    web\n") || strings.Contains(r.out, "outbox") {
		t.Errorf("a session with nothing but a destination: %s", r.out)
	}
	deliveriesIn(t, url, c, "a")
	put(t, c, "a", "m5", "hello")
	r := call(t, environ, "show", "a").want(t, exitOK)
	if want := "outbox      1 outcome owed, 3 deliveries to be made, 1 given up: worker outbox a\n"; !strings.Contains(r.out, want) {
		t.Errorf("show lacks %q:\n%s", want, r.out)
	}
	shown, _ := decode(t, call(t, environ, "show", "a", "--json").want(t, exitOK).out).(map[string]any)
	if text := fmt.Sprint(shown["reply_to"], " ", shown["outbox"]); text != "web map[owed:1 stored:3 undelivered:1]" {
		t.Errorf("show --json: %s", text)
	}
}

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
