package main

import (
	"context"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/terminal"
	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/admin"
	echoagent "turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
	"turnstile/test/watched"
)

// echoWorker is a complete worker with the agent echo. It drains at once.
func echoWorker(t *testing.T, url string) *worker.Worker {
	t.Helper()
	rdb := client(t, acl.As(t, url, acl.Worker))
	w, err := worker.New(rdb, echoagent.New(), worker.Config{
		LeaseTTL: time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop(expect.Ended()) })
	return w
}

// following is the program in this process, until it ends by itself.
type following struct {
	t     *testing.T
	out   *watched.Output
	ended chan int
}

// follow starts the program with --follow, and shows its output as it arrives.
func follow(t *testing.T, url string, args ...string) *following {
	t.Helper()
	f := &following{t: t, out: watched.NewOutput(), ended: make(chan int, 1)}
	go func() {
		f.ended <- run(bg(t), append([]string{"--follow"}, args...), nil, f.out, f.out, []string{"REDIS_URL=" + url})
	}()
	return f
}

// until waits until part was written.
func (f *following) until(part string) *following {
	f.t.Helper()
	f.out.Await(f.t, part)
	return f
}

// all waits for the end and returns all output.
func (f *following) all(code int) string {
	f.t.Helper()
	if got := <-f.ended; got != code {
		f.t.Errorf("exit code %d, want %d", got, code)
	}
	return f.out.String()
}

// durations matches those of tools, which vary.
var durations = regexp.MustCompile(`\([0-9]+\.[0-9]s\)`)

func (f *following) wants(code int, want string) {
	f.t.Helper()
	if got := durations.ReplaceAllString(f.all(code), "(2.0s)"); got != want {
		f.t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Followers see a steer, a title and the place in the queue, and with --json the events themselves.
func TestFollowASteer(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	echoWorker(t, url)
	first := follow(t, url, "-s", "a", "--id", "m1", "title=The_build tool=grep:6s first").until("title: The build\n")
	second := follow(t, url, "-s", "a", "--id", "m2", "--mode", "steer", "second").until("handed to the running turn\n")
	third := follow(t, url, "-s", "a", "--id", "m3", "--json", "/steer third")
	const reply = "the turn took in message m3\ntool grep\necho: first\n\nsteered: second\n\nsteered: third\n"
	first.wants(exitOK, "title: The build\nthe turn took in message m2\n"+strings.Replace(reply, "tool grep", "tool grep (2.0s)", 1))
	second.wants(exitOK, "waits in the queue, position 2 (steer)\nhanded to the running turn\n"+reply)
	var types []string
	for _, o := range (result{out: third.all(exitOK)}).objects(t) {
		types = append(types, text(o, "type")+text(o, "status"))
	}
	if got := strings.Join(types, " "); !strings.HasPrefix(got, "queued queued steered ") || !strings.HasSuffix(got, " done") {
		t.Errorf("objects %s", got)
	}
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	echoWorker(t, url)
	for mode, want := range map[string]string{
		"interrupt": "enqueue: message m1 interrupted by a newer message\n",
		"rollback":  "enqueue: message m1 interrupted: rolled back by a newer message\n",
	} {
		m1 := follow(t, url, "-s", mode, "--id", "m1", "stream=2 tick=1h long").until("echo")
		m2 := follow(t, url, "-s", mode, "--id", "m2", "--mode", mode, "instead")
		m1.wants(exitEnded, "echo:\n"+want)
		m2.wants(exitOK, "waits in the queue, position 2 ("+mode+")\necho: instead\n")
	}

	enqueue(t, bg(t), url, "", "-s", "full", "/queue cap:1 drop:old").want(t, exitOK)
	m1 := follow(t, url, "-s", "full", "--id", "m1", "stream=2 tick=1h long").until("echo")
	m2 := follow(t, url, "-s", "full", "--id", "m2", "waits").until("waits in the queue, position 2\n")
	r := enqueue(t, bg(t), url, "", "-s", "full", "--id", "m3", "--json", "comes").want(t, exitOK)
	m2.wants(exitEnded, "waits in the queue, position 2\nenqueue: message m2 dropped: more than 1 messages were waiting\n")
	if o := r.objects(t)[0]; text(o, "status") != "queued" || o["position"] != 2. {
		t.Errorf("%v", o)
	}
	r = enqueue(t, bg(t), url, "", "-s", "full", "--id", "m2", "--wait", "--json", "waits").want(t, exitEnded)
	if list := r.objects(t); text(list[0], "state") != "archived" || text(list[1], "status") != "dropped" {
		t.Errorf("%v", list)
	}
	r = enqueue(t, bg(t), url, "", "-s", "full", "/stop").want(t, exitOK)
	if !strings.Contains(r.out, "Stopping the running turn. 1 waiting message is now a dead letter") {
		t.Errorf("%q", r.out)
	}
	m1.wants(exitEnded, "echo:\nenqueue: message m1 stopped by user\n")
}

// A follower sees a drain, and the same wait lasts until the next worker ends the turn.
func TestFollowThroughADrain(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	w := echoWorker(t, url)
	f := follow(t, url, "-s", "a", "--id", "m1", "stream=2 tick=1h hi there").until("echo")
	waiting := make(chan result, 1)
	go func() {
		waiting <- enqueue(t, bg(t), url, "", "-s", "a", "--id", "m1", "--wait", "stream=2 tick=1h hi there")
	}()
	_ = w.StopToRestart(expect.Ended())
	f.until("its message stays\n")
	// The resumed turn need not take an hour again.
	replace(t, rdb, "a", "m1", "hi there")
	echoWorker(t, url)
	f.wants(exitOK, "echo: h\nThis worker is restarting. If the current task does not end in time it will be interrupted, and another worker will try to resume it.\n"+
		"the turn was interrupted by its worker's restart; its message stays\nthe turn is resumed after its worker's restart\necho: hi there\n")
	if r := (<-waiting).want(t, exitOK); r.out != "echo: hi there\n" {
		t.Errorf("%+v", r)
	}
}

// replace gives a waiting message another text.
func replace(t *testing.T, rdb redis.UniversalClient, key, id, text string) {
	t.Helper()
	payload, err := wire.Message{Text: text}.Payload()
	if err != nil {
		t.Fatal(err)
	}
	name := "asynq:{session:" + key + "}:t:" + rediskey.TaskID(key, id)
	msg, err := rdb.HGet(bg(t), name, "msg").Result()
	if err != nil {
		t.Fatal(err)
	}
	// If a protobuf field occurs twice, the last one counts.
	msg += "\x12" + string(rune(len(payload))) + string(payload)
	if err := rdb.HSet(bg(t), name, "msg", msg).Err(); err != nil {
		t.Fatal(err)
	}
}

// A wait survives changes to the session around its message.
func TestWaitSurvives(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	c := actors.NewClient(rdb)
	w := echoWorker(t, url)
	say := func(key, id, text string, mode session.Mode) {
		t.Helper()
		if _, err := c.Session(key).Send(bg(t), turnstile.Message{ID: id, Text: text, Mode: mode}); err != nil {
			t.Fatal(err)
		}
	}
	waits := map[string]chan result{}
	wait := func(key, id, text string, args ...string) {
		t.Helper()
		ended := make(chan result, 1)
		go func() {
			ended <- enqueue(t, bg(t), url, "", append([]string{"-s", key, "--id", id, "--wait", "--json", text}, args...)...)
		}()
		waits[key+" "+id] = ended
		expect.Soon(t, "the message to be stored", func() bool {
			_, _, err := actors.Result(context.Background(), c.Session(key), id)
			return err == nil
		})
	}

	// A turn runs in each session until a message ends it.
	say("rerun", "m1", "fail=final", "")
	if end, err := c.Session("rerun").Wait(bg(t), "m1"); err != nil || end.Status != session.StatusFailed {
		t.Fatal(end, err)
	}
	replace(t, rdb, "rerun", "m1", "yes")
	for _, key := range []string{"rotation", "collected", "rerun"} {
		ctx, started := context.WithCancel(bg(t))
		say(key, "long", "sleep=1h long", "")
		_, _ = actors.Follow(ctx, c.Session(key), "long", func(session.Event) { started() })
	}

	// A new transcript begins.
	wait("rotation", "m1", "behind")
	if _, err := c.Command(bg(t), "rotation", "/new", ""); err != nil {
		t.Fatal(err)
	}
	// It is collected with others; with three it need not wait for more.
	if _, err := c.Command(bg(t), "collected", "/queue", "debounce:1h cap:3"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"m1", "m2", "m3"} {
		say("collected", id, id, session.ModeCollect)
		wait("collected", id, id, "--mode", "collect")
	}
	// It is archived, and rerun during the wait.
	if n, err := c.Operate("rerun").Rerun(bg(t), admin.All); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	wait("rerun", "m1", "fail=final")

	if _, err := c.Command(bg(t), "collected", "/queue", "reset"); err != nil { // there is room for one more
		t.Fatal(err)
	}
	for _, key := range []string{"rotation", "collected", "rerun"} {
		say(key, "go", "go", session.ModeInterrupt)
	}
	for name, reply := range map[string]string{
		"rotation m1": "echo: behind", "rerun m1": "echo: yes",
		"collected m1": "echo: m1\n\nm2\n\nm3", "collected m2": "echo: m1\n\nm2\n\nm3", "collected m3": "echo: m1\n\nm2\n\nm3",
	} {
		list := (<-waits[name]).want(t, exitOK).objects(t)
		end := list[len(list)-1]
		if key, id, _ := strings.Cut(name, " "); text(end, "status") != "done" || text(end, "reply") != reply || text(end, "id") != id || text(end, "session") != key {
			t.Errorf("%s: %v", name, end)
		}
	}
	_ = w.Stop(expect.Ended())
}

// A wait continues after its connection is killed.
func TestWaitReconnects(t *testing.T) {
	t.Parallel()
	redistest.Real(t) // for CLIENT KILL
	server := redistest.StartServer(t)
	url := "redis://" + server.Addr() + "/0"
	rdb := client(t, url)
	f := follow(t, url, "-s", "a", "--id", "m1", "hello")
	waiting := make(chan result, 1)
	go func() { waiting <- enqueue(t, bg(t), url, "", "-s", "a", "--id", "m1", "--wait", "hello") }()
	for range 3 {
		expect.Soon(t, "two readers of the stream", func() bool {
			list, err := rdb.Do(bg(t), "CLIENT", "LIST").Text()
			return err == nil && strings.Count(list, "cmd=xread") == 2
		})
		if err := rdb.Do(bg(t), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
			t.Fatal(err)
		}
	}
	turns(t, url, hour, echo)
	f.wants(exitOK, "echo: hello\n")
	if r := (<-waiting).want(t, exitOK); r.out != "echo: hello\n" || r.err != "" {
		t.Errorf("%+v", r)
	}
}

// --json prints where another process can continue, in mid-turn and after the end. Together they
// print each event once.
func TestFollowContinuesAfterAnEvent(t *testing.T) {
	t.Parallel()
	url, rdb := newRedis(t)
	goOn := make(chan struct{})
	turns(t, url, hour, streaming(t, goOn))
	first := follow(t, url, "-s", "a", "--id", "m", "--json", "hello").until(`"tool_end"`)
	var seen []string
	var ids []string
	for _, o := range (result{out: first.out.String()}).objects(t)[1:] {
		seen, ids = append(seen, text(o, "type")+" "+text(o, "text")), append(ids, text(o, "event_id"))
	}
	if want := []string{"turn_started ", "text Let me ", "text look.\n", "thought hm", "tool_start ", "tool_end "}; !slices.Equal(seen, want) {
		t.Fatalf("seen %q", seen)
	}
	again := make([]*following, len(ids))
	for i, id := range ids {
		again[i] = follow(t, url, "-s", "a", "--id", "m", "--after", id, "--json")
	}
	plain := follow(t, url, "-s", "a", "--id", "m", "--after", ids[1], "another text, which nobody reads")
	close(goOn)
	seen = append(seen, "text Nothing there.")
	last := ""
	for i, f := range again {
		var rest []string
		for _, o := range (result{out: f.all(exitOK)}).objects(t) {
			if text(o, "status") == "" {
				rest, last = append(rest, text(o, "type")+" "+text(o, "text")), text(o, "event_id")
			}
		}
		if !slices.Equal(rest, seen[i+1:]) {
			t.Errorf("after %s: %q, want %q", seen[i], rest, seen[i+1:])
		}
	}
	first.all(exitOK)
	plain.wants(exitOK, "look.\ntool grep (<0.1s) failed: no match\nNothing there.\n")
	if out := follow(t, url, "-s", "a", "--id", "m", "--after", last, "--json").all(exitOK); strings.Count(out, "\n") != 1 || !strings.Contains(out, `"status":"done"`) {
		t.Errorf("after the end: %s", out)
	}

	// Nothing is sent, even if there is no such message any more.
	r := enqueue(t, bg(t), url, "", "-s", "b", "--id", "m", "--follow", "--after", last, "hello").want(t, exitOther)
	r.oneLine(t, "the outcome of message m is unknown")
	if n, err := rdb.Exists(bg(t), "asynq:{session:b}:pending").Result(); n != 0 || err != nil {
		t.Errorf("%d messages wait, %v", n, err)
	}
}

// An interrupted command prints how to continue.
func TestInterruptedFollowTellsHowToGoOn(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	goOn := make(chan struct{})
	turns(t, url, hour, streaming(t, goOn))
	r := enqueue(t, bg(t), url, "", "-s", "a~b", "--id", "m", "--follow", "--timeout", "300ms", "hello").want(t, exitTimeout)
	_, call, ok := strings.Cut(r.err, "to wait for it again: enqueue -s 'a~b' --id m --follow --after ")
	if !ok || r.out != "Let me look.\n" {
		t.Fatalf("%+v", r)
	}
	// So it does with another --redis, but it does not print a password.
	waits := []string{"-s", "a", "--id", "w", "--in", "30d", "--wait", "--timeout", "50ms", "--redis"}
	enqueue(t, bg(t), nowhere, "", append(waits, url, "x")...).want(t, exitTimeout).
		oneLine(t, ": enqueue --redis "+terminal.Quoted(url)+" -s a --id w --follow --after 0-0\n")
	for _, secret := range []string{"redis://:sesame@h", "redis-sentinel://h?master=m&sentinel_password=sesame"} {
		if call := (options{redis: secret}).call("a"); call != "enqueue --redis URL -s a" {
			t.Error(call)
		}
	}
	close(goOn)
	r = enqueue(t, bg(t), url, "", "-s", "a~b", "--id", "m", "--follow", "--after", strings.TrimSpace(call)).want(t, exitOK)
	if r.out != "Nothing there.\n" {
		t.Errorf("%+v", r)
	}
	// A finished message is shown from the beginning.
	if r = enqueue(t, bg(t), url, "", "-s", "a~b", "--id", "m", "--follow", "--after", "0-0").want(t, exitOK); r.out != "Let me look.\nNothing there.\n" {
		t.Errorf("%+v", r)
	}
}
