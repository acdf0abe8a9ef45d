package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/watched"
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

// A wait prints once that no worker is running, and gets the result of a worker that starts later.
func TestWaitTellsThatNoWorkerRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ args, says string }{
		"one":    {"-s a --wait hello", "the message waits"},
		"follow": {"-s a --json --follow hello", "the message waits"},
		"file":   {"--file - --wait", "messages wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := newRedis(t)
			stdout, stderr := watched.NewOutput(), watched.NewOutput()
			code, began := make(chan int), time.Now()
			go func() {
				code <- run(bg(t), strings.Fields(c.args), strings.NewReader(`{"session":"b","text":"hello"}`), stdout, stderr, []string{"REDIS_URL=" + url})
			}()
			hint := "enqueue: no worker is running: " + c.says + " until one is started\n"
			stderr.Await(t, hint)
			if took := time.Since(began); took < 3*time.Second {
				t.Errorf("it is said after %s", took)
			}
			turns(t, url, hour, echo)
			if got := <-code; got != exitOK || stderr.String() != hint || !strings.Contains(stdout.String(), "echo: hello") {
				t.Errorf("exit code %d, stdout %q, stderr %q", got, stdout, stderr)
			}
		})
	}
}

// A worker without maintenance, as turns makes it, sends no heartbeat and still counts as running.
// So does a draining worker, which shows only by its turn.
func TestWaitDoesNotMissAWorker(t *testing.T) {
	t.Parallel()
	t.Run("without maintenance", func(t *testing.T) {
		t.Parallel()
		url, rdb := newRedis(t)
		if err := rdb.Set(bg(t), rediskey.For("a").Paused(), 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
		turns(t, url, hour, echo)
		r := enqueue(t, bg(t), url, "", "-s", "a", "--wait", "--timeout", "5s", "hello").want(t, exitTimeout)
		r.oneLine(t, "no reply to message")
	})
	t.Run("that drains", func(t *testing.T) {
		t.Parallel()
		url, _ := newRedis(t)
		enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "first")
		finish := occupy(t, url, "a", hour)
		finished := make(chan struct{})
		defer func() { <-finished }()
		time.AfterFunc(4*time.Second, func() { defer close(finished); finish() })
		if r := enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--wait", "first").want(t, exitOK); r.err != "" || r.out != "echo: first\n" {
			t.Errorf("%+v", r)
		}
	})
}

// --answer gives a value to the turn that waits for it, and says so if none does.
func TestAnswer(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	for _, args := range [][]string{
		{"--answer", "", "1"}, {"--answer", "payment"}, {"--answer", "payment", "--wait", "1"}, {"--answer", "payment", "--id", "x", "1"},
		{"--answer", "payment", "{"}, {"--answer", "payment", "--file", "x", "1"},
	} {
		enqueue(t, bg(t), url, "", append([]string{"-s", "a"}, args...)...).want(t, exitUsage)
	}
	r := enqueue(t, bg(t), url, "", "-s", "a", "--answer", "payment", "1").want(t, exitRefused)
	expect.Equal(t, "stderr", r.err, "enqueue: no turn waits for this value\n")

	enqueue(t, bg(t), url, "", "-s", "a", "hello").want(t, exitOK)
	w, err := actors.NewConsumer(rdb, protocol.Config{Worker: "w", SentinelTTL: time.Hour})
	expect.OK(t, err)
	claims, err := w.Claim(bg(t), []string{"a"})
	expect.OK(t, err)
	h := claims[0]
	_, err = h.Journal(bg(t), protocol.JournalWrite{HasSteps: true, Messages: []string{h.Turn().Message.ID}, Entries: map[int]session.Entry{}, Steps: map[string]string{"s": `{"state":"ended"}`}})
	expect.OK(t, err)
	_, err = h.WaitFor(bg(t), "payment", "secret", false, 0)
	expect.OK(t, err)

	r = enqueue(t, bg(t), url, `{"paid": true}`, "-s", "a", "--answer", "payment", "-").want(t, exitOK)
	expect.Equal(t, "stdout", r.out, "the turn of session a has the value of payment\n")
	r = enqueue(t, bg(t), url, "", "-s", "a", "--json", "--answer", "payment", `{"paid":true}`).want(t, exitOK)
	expect.Equal(t, "stdout", r.out, `{"session":"a","answer":"payment"}`+"\n")
	r = enqueue(t, bg(t), url, "", "-s", "a", "--answer", "payment", "2").want(t, exitRefused)
	expect.Equal(t, "stderr", r.err, "enqueue: another value was given before\n")
	known, err := h.WaitFor(bg(t), "payment", "secret", false, 0)
	expect.OK(t, err)
	value, _ := known.Value()
	expect.Equal(t, "value", string(value), `{"paid":true}`)
}
