package main

import (
	"bufio"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/version"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// rows are a table's rows by their first column, with single blanks.
func rows(text string) map[string]string {
	m := map[string]string{}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) > 0 {
			m[fields[0]] = strings.Join(fields[1:], " ")
		}
	}
	return m
}

// everyState makes a session in each state, named after it.
func everyState(t *testing.T) (environ []string, c *actors.Client) {
	t.Helper()
	url, c := newRedis(t)
	w := echoWorker(t, url, "TURNSTILE_CONCURRENCY=2", "TURNSTILE_DRAIN_TIMEOUT=0", "TURNSTILE_RETRY_BACKOFF=1h")
	reply(t, c, "idle", "title=Done hello")
	reply(t, c, "suspended", "hello")
	untilEvent(t, c, "retried", send(t, c, "retried", "fail=retry hello"), session.EventTurnRetry)
	asking := send(t, c, "asking", "ask=deploy hello")
	untilEvent(t, c, "asking", asking, session.EventQuestionAsked)
	running := send(t, c, "running", "sleep=1h hello")
	untilEvent(t, c, "running", running, session.EventTurnStarted)
	rdb := redistest.New(t)
	for _, key := range []string{"paused", "running"} {
		if err := rdb.Set(t.Context(), rediskey.For(key).Paused(), 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	send(t, c, "paused", "hello")
	send(t, c, "waiting", "hello")
	if _, err := c.Session("delayed").Send(limited(t), turnstile.Message{Text: "later", Delay: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := rdb.HSet(t.Context(), rediskey.For("suspended").Resume(), "suspended", "1").Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cancel)
	return []string{"REDIS_URL=" + url}, c
}

func TestStates(t *testing.T) {
	t.Parallel()
	environ, _ := everyState(t)
	r := call(t, environ, "ps").want(t, exitOK)
	got := rows(r.out)
	for key, state := range map[string]string{
		"running": "running, paused ", "asking": "waits for a decision ", "waiting": "waits for a slot ", "delayed": "waits for its time ", "paused": "paused ",
		"retried": "tries again in ",
	} {
		if !strings.HasPrefix(got[key], state) {
			t.Errorf("ps: %s is %q, want %q", key, got[key], state)
		}
	}
	if r.err != "" || got["idle"] != "" || got["suspended"] != "" {
		t.Errorf("ps: %q %q", r.out, r.err)
	}
	for key, want := range map[string]string{"asking": "state       waits for a decision\n", "paused": "state       paused\n", "running": "state       running, paused\n", "retried": "state       tries again in "} {
		if r := call(t, environ, "show", key).want(t, exitOK); !strings.Contains(r.out, want) {
			t.Errorf("show %s lacks %q:\n%s", key, want, r.out)
		}
	}
}

func TestLs(t *testing.T) {
	t.Parallel()
	environ, _ := everyState(t)
	got := rows(call(t, environ, "ls").want(t, exitOK).out)
	for key, want := range map[string]string{
		"SESSION": "STATE ACTIVE PENDING DELAYED DEAD LETTERS TITLE", "idle": "idle ", "suspended": "suspended ", "asking": "waits for a decision ",
		"paused": "paused ", "waiting": "waits for a slot ", "delayed": "waits for its time ", "running": "running, paused ", "retried": "tries again in ",
	} {
		if !strings.HasPrefix(got[key], want) {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if !strings.HasSuffix(got["idle"], "ago 0 0 0 Done") {
		t.Errorf("idle is %q", got["idle"])
	}
	list := objects(t, call(t, environ, "ls", "[is]*d*", "--json").want(t, exitOK).out)
	if len(list) != 2 || list[0]["session"] != "idle" || list[1]["session"] != "suspended" {
		t.Fatalf("%v", list)
	}
	take(t, list[0], "session_id", "active_at")
	if want := map[string]any{
		"session": "idle", "phase": "idle", "state": "idle", "paused": false, "suspended": false, "worker": "", "turn": "", "since": nil, "until": nil,
		"pending": 0., "scheduled": 0., "archived": 0., "title": "Done", "agent": "default", "needs": "",
	}; !reflect.DeepEqual(list[0], want) {
		t.Errorf("got  %v\nwant %v", list[0], want)
	}
	if r := call(t, environ, "ls", "nobody:*").want(t, exitOK); r.out != "No session's key matches nobody:*.\n" {
		t.Errorf("%q", r.out)
	}
	for _, bad := range []string{"a/b", "[a", "a b", ""} {
		if r := call(t, environ, "ls", bad).want(t, exitUsage); !strings.Contains(r.err, "invalid pattern") {
			t.Errorf("%q: %q", bad, r.err)
		}
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	const none = "worker: no worker is running: messages wait until one is started\n"
	if r := call(t, environ, "ps").want(t, exitOK); r.err != none {
		t.Errorf("%q", r.err)
	}
	if r := call(t, environ, "ps", "--json").want(t, exitOK); r.out != "[]\n" || r.err != none {
		t.Errorf("%q", r.err)
	}
	if r := call(t, environ, "ps", "--workers").want(t, exitOK); r.out != "No worker is running.\n" {
		t.Errorf("%q", r.out)
	}
	if r := call(t, environ, "ps", "--workers", "--json").want(t, exitOK); r.out != "[]\n" {
		t.Errorf("%q", r.out)
	}
	w := echoWorker(t, url, "TURNSTILE_CONCURRENCY=3", "TURNSTILE_DRAIN_TIMEOUT=0")
	send(t, c, "a", "sleep=1h hello")
	var got map[string]any
	for deadline := time.Now().Add(waits); got["turns"] != 1. || got["version"] == ""; { // the next heartbeat comes in 5 s at most
		list, _ := decode(t, call(t, environ, "ps", "--workers", "--json").want(t, exitOK).out).([]any)
		if len(list) != 1 {
			t.Fatalf("%v", list)
		}
		got, _ = list[0].(map[string]any)
		if time.Now().After(deadline) {
			t.Fatalf("%v", got)
		}
	}
	host, _ := got["host"].(string)
	name, _ := got["worker"].(string)
	take(t, got, "worker", "host", "pid", "since", "version")
	if want := map[string]any{"slots": 3., "turns": 1., "draining": false, "agents": []any{"default"}, "gateway": false, "differs": map[string]any{}}; !reflect.DeepEqual(got, want) || !strings.HasPrefix(name, host+"-") {
		t.Errorf("%s on %s: %v", name, host, got)
	}
	table := rows(call(t, environ, "ps", "--workers").want(t, exitOK).out)
	if row := table[name]; !strings.HasPrefix(row, host+" ") || !strings.HasSuffix(row, " running "+version.String()+" default -") {
		t.Errorf("%v", table)
	}
	if r := call(t, environ, "ps").want(t, exitOK); r.err != "" {
		t.Errorf("%q", r.err)
	}
	w.cancel()
}

func TestShowRunningTurn(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	echoWorker(t, url, "TURNSTILE_DRAIN_TIMEOUT=0")
	for i := range 12 {
		put(t, c, "a", "d"+string(rune('a'+i)), "fail=final it")
		if o, err := c.Session("a").Wait(limited(t), "d"+string(rune('a'+i))); err != nil || o.Status != session.StatusFailed {
			t.Fatal(o, err)
		}
	}
	put(t, c, "a", "m1", "tool=grep stream=2 tick=1h one two three four")
	untilText(t, c, "a", "m1", "one")
	text := call(t, environ, "show", "a").want(t, exitOK).out
	for _, want := range []string{
		"\nrunning turn\n  m1, 20", ": tool=grep stream=2 tick=1h one two three four\n  so far\n    tool grep (<0.1s)\n    echo: one",
		"\ndead letters (12)\n  dl, ", "s ago, failed: echo: told to fail\n", "  and 2 more: worker dead a\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("show lacks %q:\n%s", want, text)
		}
	}
	if timeline := regexp.MustCompile(`\n  timeline\n    \S+ \S+  run [0-9a-f]+-\d+ on \S+\n    \S+ \S+    grep .* -> .*\n$`); !timeline.MatchString(text) {
		t.Errorf("show lacks a timeline:\n%s", text)
	}
	shown, _ := decode(t, call(t, environ, "show", "a", "--json").want(t, exitOK).out).(map[string]any)
	dead, _ := shown["dead"].([]any)
	last, _ := dead[0].(map[string]any)
	if reply, _ := shown["reply"].(string); !strings.HasPrefix(reply, "echo: one") || len(dead) != 10 || last["id"] != "dl" || last["status"] != "failed" || last["error"] != "the agent failed" || last["detail"] != "echo: told to fail" {
		t.Errorf("%q %v", reply, dead)
	}
}

func TestShowFollow(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	echoWorker(t, url, "TURNSTILE_DRAIN_TIMEOUT=0")
	put(t, c, "a", "m1", "tool=grep ask=deploy on it")
	untilEvent(t, c, "a", "m1", session.EventQuestionAsked)
	follower := start(t, environ, "show", "a", "--follow")
	follower.err.Await(t, "decide with: enqueue -s a /approve 1   or: enqueue -s a /deny 1")
	if answer, err := c.Command(t.Context(), "a", "/approve", ""); err != nil || answer != "Approved question 1: deploy." {
		t.Error(answer, err)
	}
	follower.wait(t, exitOK)
	if _, behind, _ := strings.Cut(follower.out.String(), "\nfollowing message m1\n"); behind != "echo: on it\n" {
		t.Errorf("%q", follower.out)
	}
	if said := follower.err.String(); !strings.Contains(said, "tool grep") || !strings.HasSuffix(said, "\nworker: the turn ended: message m1 done\n") {
		t.Errorf("%q", said)
	}
	if r := call(t, environ, "show", "a", "--follow").want(t, exitOK); r.err != "worker: session a is not followed: nothing runs, nothing waits for a slot\n" {
		t.Errorf("%q", r.err)
	}
	put(t, c, "a", "m2", "sleep=1s fail=final it")
	list := objects(t, call(t, environ, "show", "a", "-f", "--json").want(t, exitOK).out)
	if end := list[len(list)-1]; list[1]["type"] != "turn_started" || list[1]["session"] != "a" || end["status"] != "failed" || end["error"] != "the agent failed" || end["detail"] != "echo: told to fail" {
		t.Errorf("%v", list)
	}
	put(t, c, "a", "m3", "sleep=1h on it")
	untilEvent(t, c, "a", "m3", session.EventTurnStarted)
	ended := start(t, environ, "show", "a", "--follow")
	ended.out.Await(t, "following message m3")
	ended.cancel() // acts like Ctrl-C
	ended.wait(t, exitInterrupted)
	if said := ended.err.String(); said != "worker: interrupted: the session is no longer followed, and its turn continues\n" {
		t.Errorf("%q", said)
	}
}

// Without a worker, a message waits for one, not for a slot.
func TestStatesWithoutAWorker(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	send(t, c, "a", "hello")
	environ := []string{"REDIS_URL=" + url}
	for _, command := range [][]string{{"ps"}, {"ls"}, {"show", "a"}} {
		t.Run(command[0], func(t *testing.T) {
			t.Parallel()
			r := call(t, environ, command...).want(t, exitOK)
			if !strings.Contains(r.out, "waits for a worker") || strings.Contains(r.out, "slot") {
				t.Errorf("%s prints %q", command[0], r.out)
			}
		})
	}
}

// In a Redis that stores nothing, nobody can know whether a worker runs. What is stored can be read.
func TestRedisThatRefusesWrites(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(*redistest.Server){
		"memory": func(s *redistest.Server) { expect.OK(t, s.Client().ConfigSet(t.Context(), "maxmemory", "1").Err()) },
		"disk":   (*redistest.Server).RefuseWrites,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartServer(t)
			send(t, client(t, server.URL()), "a", "hello")
			refuse(server)
			environ := []string{"REDIS_URL=" + server.URL()}
			for _, args := range [][]string{{"ps"}, {"ps", "--workers"}, {"agents"}} {
				r := call(t, environ, args...).want(t, exitOK)
				if !strings.Contains(r.err, "heartbeats cannot be written: Redis ") || strings.Contains(strings.ToLower(r.out+r.err), "no worker") {
					t.Errorf("%v: %q, %q", args, r.out, r.err)
				}
			}
			expect.Equal(t, "the session", strings.HasPrefix(rows(call(t, environ, "ls").want(t, exitOK).out)["a"], "waits for a slot "), true)
		})
	}
}
