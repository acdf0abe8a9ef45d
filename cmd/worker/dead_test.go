package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"turnstile"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/acl"
	"turnstile/test/actors"
)

// deadIn archives three messages of a session: m3 has expired, m1 failed, m2 was stopped, in this
// order.
func deadIn(t *testing.T, url string, c *actors.Client, key string) {
	t.Helper()
	w, err := actors.NewConsumer(newClient(t, acl.As(t, url, acl.Worker)), protocol.Config{Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct {
		id  string
		end protocol.End
	}{
		{"m3", protocol.End{Status: session.StatusExpired, Error: "expired: it waited 2s, at most 1s was allowed"}},
		{"m1", protocol.End{Status: session.StatusFailed, Error: "exit status 2:\tno such\nfile"}},
	} {
		put(t, c, key, m.id, "text of "+m.id+"\nsecond line \x1b[31m")
		holds, err := w.Claim(limited(t), []string{key})
		if err != nil || len(holds) != 1 {
			t.Fatal(holds, err)
		}
		if _, err := holds[0].Finish(limited(t), m.end); err != nil {
			t.Fatal(err)
		}
	}
	put(t, c, key, "m2", strings.Repeat("long ", 30))
	if _, err := c.Session(key).Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, c *actors.Client, key, id, text string) {
	t.Helper()
	if _, err := c.Session(key).Send(limited(t), turnstile.Message{ID: id, Text: text}); err != nil {
		t.Fatal(err)
	}
}

// objects reads JSON lines.
func objects(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, o)
	}
	return list
}

// ages matches those of the list, which are no longer than a test.
var ages = regexp.MustCompile(`^(a \S+ \S+) \ds `)

func TestDeadList(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	send(t, c, "empty", "hello")
	for _, args := range [][]string{{"dead"}, {"dead", "list"}, {"dead", "ls"}, {"dead", "list", "empty"}, {"dead", "ls", "empty"}, {"dead", "empty"}} {
		if r := call(t, environ, args...).want(t, exitOK); r.out != "No dead letters.\n" {
			t.Errorf("%v: %q", args, r.out)
		}
	}
	if r := call(t, environ, "dead", "--json").want(t, exitOK); r.out != "" {
		t.Errorf("dead --json of nothing: %q", r.out)
	}
	deadIn(t, url, c, "a")
	deadIn(t, url, c, "b")

	r := call(t, environ, "dead", "a").want(t, exitOK)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	for i, want := range []string{
		"SESSION ID STATUS AGE ERROR TEXT",
		"a m3 expired 0s it waited 2s, at most 1s was allowed text of m3 …",
		"a m1 failed 0s exit status 2: no such … text of m1 …",
		"a m2 stopped 0s stopped by user " + strings.TrimSpace(strings.Repeat("long ", 12))[:59] + "…",
	} {
		got := ages.ReplaceAllString(strings.Join(strings.Fields(lines[i]), " "), "$1 0s ")
		if got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	for args, want := range map[string]int{"dead list b --json": 3, "dead --json": 6} {
		list := objects(t, call(t, environ, strings.Fields(args)...).want(t, exitOK).out)
		if len(list) != want {
			t.Errorf("%s: %d objects", args, len(list))
		}
		for _, o := range list {
			take(t, o, "at")
			if age, ok := o["age_ms"].(float64); !ok || age < 0 || o["session"] != "b" && want == 3 {
				t.Errorf("%s: %v", args, o)
			}
			if o["id"] == "m1" && (o["status"] != "failed" || o["error"] != "exit status 2:\tno such\nfile" || o["text"] != "text of m1\nsecond line \x1b[31m") {
				t.Errorf("%s: %v", args, o)
			}
		}
	}
}

// A misspelt session is an error, and not a session without dead letters.
func TestDeadLettersOfAnUnknownSession(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	for _, args := range [][]string{{"dead", "nosuch"}, {"dead", "list", "nosuch", "--json"}, {"dead", "rerun", "nosuch"}, {"dead", "rerun", "nosuch", "--json"}, {"dead", "drop", "nosuch"}, {"dead", "drop", "nosuch", "m1"}} {
		r := call(t, []string{"REDIS_URL=" + url}, args...).want(t, exitOther)
		if r.out != "" || r.err != "worker: session nosuch is unknown: it never had a message, or it was forgotten\n" {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestDeadRerun(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	for _, key := range []string{"a", "b", "c"} {
		deadIn(t, url, c, key)
	}
	if r := call(t, environ, "dead", "rerun", "a").want(t, exitOK); r.out != "a: 2 dead letters requeued.\n" {
		t.Errorf("%q", r.out)
	}
	if r := call(t, environ, "dead", "rerun", "a").want(t, exitOK); r.out != "Session a has no dead letters that failed or were stopped.\n" {
		t.Errorf("%q", r.out)
	}
	r := call(t, environ, "dead", "rerun", "--all").want(t, exitOK)
	for _, want := range []string{"b: 2 dead letters requeued.\n", "c: 2 dead letters requeued.\n", "4 dead letters of 2 sessions requeued.\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q lacks %q", r.out, want)
		}
	}
	if r := call(t, environ, "dead", "rerun", "--all").want(t, exitOK); r.out != "No session has dead letters that failed or were stopped.\n" {
		t.Errorf("%q", r.out)
	}
	list := objects(t, call(t, environ, "dead", "rerun", "a", "--json").want(t, exitOK).out)
	if len(list) != 1 || list[0]["session"] != "a" || list[0]["rerun"] != 0. {
		t.Errorf("%v", list)
	}

	// The built program runs them. The expired one stays.
	w := echoWorker(t, url)
	for _, key := range []string{"a", "b", "c"} {
		for _, id := range []string{"m1", "m2"} {
			if end, err := c.Session(key).Wait(limited(t), id); err != nil || end.Status != session.StatusDone {
				t.Errorf("%s of %s: %+v, %v", id, key, end, err)
			}
		}
		if end, ok, err := actors.Result(limited(t), c.Session(key), "m3"); err != nil || !ok || end.Status != session.StatusExpired {
			t.Errorf("m3 of %s: %+v, %v", key, end, err)
		}
	}
	w.stop(t)
}

// IDs choose the dead letters to rerun. Others stay, and so does one that may not be rerun.
func TestDeadRerunOfSome(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	deadIn(t, url, c, "a")
	if r := call(t, environ, "dead", "rerun", "a", "m2").want(t, exitOK); r.out != "a: 1 dead letter requeued.\n" {
		t.Errorf("%q", r.out)
	}
	for id, want := range map[string]string{"m1": "archived", "m2": "pending", "m3": "archived"} {
		if state, _, _, err := actors.MessageState(limited(t), c.Session("a"), id); err != nil || state != want {
			t.Errorf("%s is %s, %v; want %s", id, state, err, want)
		}
	}
	for args, want := range map[string]string{
		"m2":       "message m2 is not among the dead letters that failed or were stopped of session a",
		"m3":       "message m3 is not among the dead letters that failed or were stopped of session a",
		"m3 other": "2 of the 2 ids are not among the dead letters that failed or were stopped of session a",
	} {
		r := call(t, environ, append([]string{"dead", "rerun", "a"}, strings.Fields(args)...)...).want(t, exitOther)
		if r.out != "" || r.err != "worker: "+want+"\n" {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

func TestDeadDrop(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	environ := []string{"REDIS_URL=" + url}
	for _, key := range []string{"a", "b", "c"} {
		deadIn(t, url, c, key)
	}
	put(t, c, "a", "m4", "waits")
	if r := call(t, environ, "dead", "drop", "a", "m1").want(t, exitOK); r.out != "a: 1 dead letter deleted.\n" {
		t.Errorf("%q", r.out)
	}
	r := call(t, environ, "dead", "drop", "a", "m2", "m1", "m4").want(t, exitOther)
	if r.out != "a: 1 dead letter deleted.\n" || r.err != "worker: 2 of the 3 ids are not among the dead letters of session a\n" {
		t.Errorf("%+v", r)
	}
	for ids, want := range map[string]string{"m1": "message m1 is", "m2 m1": "2 of the 2 ids are"} {
		r := call(t, environ, append([]string{"dead", "drop", "a"}, strings.Fields(ids)...)...).want(t, exitOther)
		if r.err != "worker: "+want+" not among the dead letters of session a\n" {
			t.Errorf("%s: %+v", ids, r)
		}
	}
	if r = call(t, environ, "dead", "drop", "c", "m3", "m9").want(t, exitOther); r.err != "worker: 1 of the 2 ids is not among the dead letters of session c\n" {
		t.Errorf("%+v", r)
	}
	list := objects(t, call(t, environ, "dead", "drop", "b", "--json").want(t, exitOK).out)
	if len(list) != 1 || list[0]["session"] != "b" || list[0]["dropped"] != 3. {
		t.Errorf("%v", list)
	}
	if r := call(t, environ, "dead", "drop", "b").want(t, exitOK); r.out != "Session b has no dead letters.\n" {
		t.Errorf("%q", r.out)
	}
	cmd, s := process(t, environ, "dead", "drop", "--all")
	exits(t, cmd, s, exitOK)
	if want := "3 dead letters of 2 sessions deleted.\n"; !strings.HasSuffix(s.String(), want) {
		t.Errorf("%q does not end in %q", s, want)
	}
	if r := call(t, environ, "dead", "drop", "--all").want(t, exitOK); r.out != "No session has dead letters.\n" {
		t.Errorf("%q", r.out)
	}
	if info, err := c.Session("a").Info(limited(t)); err != nil || info.Waiting != 1 || info.DeadLetters != 0 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestDeadUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"dead a b":            "dead list takes at most one SESSION, but got 2; see worker dead --help",
		"dead list a b":       "dead list takes at most one SESSION, but got 2; see worker dead list --help",
		"dead rerun":          "dead rerun wants a SESSION, or --all for those of all sessions; see worker dead rerun --help",
		"dead drop":           "dead drop wants a SESSION, or --all for those of all sessions; see worker dead drop --help",
		"dead drop --all a":   "dead drop: both --all and a SESSION: use one of them; see worker dead drop --help",
		"dead rerun a m/1":    `invalid message id "m/1": use letters, digits and ._:@+=~- only, the first a letter or digit`,
		"dead list a/b":       `invalid session key "a/b": use letters, digits and ._:@+=~- only, the first a letter or digit`,
		"dead drop a/b":       `invalid session key "a/b": use letters, digits and ._:@+=~- only, the first a letter or digit`,
		"dead drop a m/1":     `invalid message id "m/1": use letters, digits and ._:@+=~- only, the first a letter or digit`,
		"forget":              "forget takes one SESSION, but got 0; see worker forget --help",
		"forget a b":          "forget takes one SESSION, but got 2; see worker forget --help",
		"forget a/b":          `invalid session key "a/b": use letters, digits and ._:@+=~- only, the first a letter or digit`,
		"dead drop a --json=": `invalid argument "" for "--json" flag: strconv.ParseBool: parsing "": invalid syntax; see worker dead drop --help`,
	} {
		r := call(t, nil, strings.Fields(args)...).want(t, exitUsage)
		if r.err != "worker: "+want+"\n" || r.out != "" {
			t.Errorf("%s: %+v", args, r)
		}
	}
	for _, args := range []string{"dead", "dead drop --all", "dead rerun a", "forget a"} {
		r := call(t, nil, append(strings.Fields(args), "--redis", "redis://127.0.0.1:1/0")...).want(t, exitOther)
		if strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "refuses the connection") {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
