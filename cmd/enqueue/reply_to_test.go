package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
)

// route is the stored route of a message's outcome: destination, repeats and context.
func route(t *testing.T, rdb redis.UniversalClient, key, id string) string {
	t.Helper()
	k := rediskey.For(key)
	task := k.Task(rediskey.TaskID(key, id))
	if rdb.Exists(bg(t), task).Val() == 0 {
		t.Fatalf("message %s of %s is not stored", id, key)
	}
	return rdb.HGet(bg(t), task, "route").Val()
}

func TestReplyTo(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	say := func(id string, args ...string) {
		enqueue(t, bg(t), url, "", append([]string{"-s", "a", "--id", id}, append(args, "hello")...)...).want(t, exitOK)
	}
	say("nowhere")
	say("own", "--reply-to", "bot", "--context", `{"chat": 42}`)

	r := enqueue(t, bg(t), url, "", "-s", "a", "--reply-to", "web").want(t, exitOK)
	if r.out != "outcomes of later messages of session a go to web\n" {
		t.Errorf("%+v", r)
	}
	say("theirs", "--context", `"42"`)
	say("none", "--reply-to", "-")
	if r := enqueue(t, bg(t), url, "", "-s", "a", "--reply-to", "-").want(t, exitOK); r.out != "session a has no destination\n" {
		t.Errorf("%+v", r)
	}
	say("later")
	for id, want := range map[string]string{"nowhere": "", "own": `bot - {"chat":42}`, "theirs": `web - "42"`, "none": "", "later": ""} {
		if got := route(t, rdb, "a", id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	for _, c := range [][2]string{{"web", "web"}, {"-", ""}} {
		r := enqueue(t, bg(t), url, "", "-s", "a", "--json", "--reply-to", c[0]).want(t, exitOK)
		if r.out != fmt.Sprintf("{\"session\":\"a\",\"reply_to\":%q}\n", c[1]) {
			t.Errorf("%s: %+v", c[0], r)
		}
	}

	turns(t, url, hour, echo)
	enqueue(t, bg(t), url, "", "-s", "a", "--id", "last", "--wait", "hello").want(t, exitOK)
	var stored []string
	for d, err := range admin.NewClient(rdb).Session("a").Deliveries(bg(t)) {
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, fmt.Sprint(d.Destination, d.Messages, d.Type))
	}
	if want := []string{"bot[own]message.done", "web[theirs]message.done"}; !slices.Equal(stored, want) {
		t.Errorf("the outbox has %q, want %q", stored, want)
	}
}

// --deliver-by is a time or a duration, also in a file's line, and needs no --reply-to.
func TestDeliverBy(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	enqueue(t, bg(t), url, "", "-s", "a", "--reply-to", "web").want(t, exitOK)
	enqueue(t, bg(t), url, "", "-s", "a", "--id", "flag", "--deliver-by", "2100-01-01T00:00:00Z", "x").want(t, exitOK)
	lines := []string{
		`{"id":"line","text":"x","deliver_by":"10m"}`, `{"id":"flags","text":"x"}`, `{"id":"none","text":"x","deliver_by":""}`,
		`{"id":"bad1","text":"x","deliver_by":"-10m"}`, `{"id":"bad2","text":"x","deliver_by":"tomorrow"}`,
	}
	r := enqueue(t, bg(t), url, strings.Join(lines, "\n"), "-s", "a", "--deliver-by", "2100-01-01T00:00:00Z", "--file", "-").want(t, exitUsage)
	for _, want := range []string{`line 4: invalid deliver_by "-10m": write a time such as`, `line 5: invalid deliver_by "tomorrow"`} {
		if !strings.Contains(r.err, want) {
			t.Errorf("stderr %q lacks %q", r.err, want)
		}
	}
	stored := rdb.HGetAll(bg(t), rediskey.For("a").Deliveries()).Val()
	if stored["deliver_by flag"] != "4102444800000" || stored["deliver_by flags"] != "4102444800000" || stored["deliver_by none"] != "" {
		t.Errorf("stored: %q", stored)
	}
	now := rdb.Time(bg(t)).Val()
	if by, err := strconv.ParseInt(stored["deliver_by line"], 10, 64); err != nil || by <= now.UnixMilli() || by > now.Add(10*time.Minute).UnixMilli() {
		t.Errorf("deliver by %q, now it is %d", stored["deliver_by line"], now.UnixMilli())
	}
	for _, bad := range []string{"", "0s", "yesterday"} {
		enqueue(t, bg(t), url, "", "-s", "a", "--deliver-by", bad, "x").want(t, exitUsage)
	}
}

// The flags are the defaults of the lines.
func TestReplyToInAFile(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	lines := []string{
		`{"id":"flags","text":"x"}`,
		`{"id":"own","text":"x","reply_to":"bot","context":{"chat": 42}}`,
		`{"id":"none","text":"x","reply_to":"-"}`,
		`{"id":"bad1","text":"x","reply_to":"Bot"}`,
		`{"id":"bad2","text":"x","reply_to":7}`,
		`{"id":"bad3","text":"x","context":"` + strings.Repeat("x", 2048) + `"}`,
		`{"id":"bad4","text":"x","replyto":"bot"}`,
	}
	r := enqueue(t, bg(t), url, strings.Join(lines, "\n"), "-s", "a", "--reply-to", "web", "--context", "[1]", "--file", "-").want(t, exitUsage)
	for _, want := range []string{
		`line 4: invalid destination "Bot": use up to 64 of a-z, 0-9, - and _`, `line 5: invalid JSON: "reply_to" must be a string`,
		"line 6: invalid context: it has 2050 bytes, at most 2048 are allowed", `line 7: invalid JSON: unknown field "replyto": did you mean "reply_to"?`,
	} {
		if !strings.Contains(r.err, want) {
			t.Errorf("stderr %q lacks %q", r.err, want)
		}
	}
	for id, want := range map[string]string{"flags": "web - [1]", "own": `bot - {"chat":42}`, "none": ""} {
		if got := route(t, rdb, "a", id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}

func TestFullOutboxIsARefusal(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	environ := []string{"REDIS_URL=" + url, "TURNSTILE_OUTBOX_CAP=1"}
	call := func(args ...string) result {
		var out, err strings.Builder
		code := run(bg(t), append([]string{"-s", "a"}, args...), strings.NewReader(""), &out, &err, environ)
		return result{code, out.String(), err.String()}
	}
	call("--reply-to", "bot", "first").want(t, exitOK)
	call("--id", "m2", "--reply-to", "bot", "second").want(t, exitRefused).
		oneLine(t, "refused: too many outcomes of session a, or for its destination, are not delivered yet (TURNSTILE_OUTBOX_CAP, TURNSTILE_DESTINATION_CAP); nothing was stored")
	r := call("--id", "m2", "--reply-to", "bot", "--json", "second").want(t, exitRefused)
	if !strings.Contains(r.out, `"status":"refused"`) || !strings.Contains(r.out, `"reason":"outbox"`) {
		t.Errorf("%+v", r)
	}
	if n := rdb.LLen(bg(t), rediskey.For("a").Pending()).Val(); n != 1 {
		t.Errorf("%d messages wait", n)
	}
	call("--id", "m2", "second, without a destination").want(t, exitOK)
}

// The built program reports that nothing was stored.
func TestSetReplyToWithoutRedis(t *testing.T) {
	t.Parallel()
	_, finish := start(t, nowhere, "", "-s", "a", "--reply-to", "bot")
	finish().want(t, exitOther).oneLine(t, "refuses the connection", "nothing was stored")
}
