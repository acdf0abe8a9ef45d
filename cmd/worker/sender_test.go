package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/process/workspace"
	"turnstile/internal/protocol/rediskey"
	"turnstile/test/acl"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// wrote sends a message of a sender.
func wrote(t *testing.T, c *actors.Client, key, sender, text, to string) {
	t.Helper()
	_, err := c.Session(key).Send(limited(t), turnstile.Message{ID: text, Text: text, Meta: map[string]string{"sender": sender}, ReplyTo: to})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSender(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	rdb := newClient(t, acl.As(t, redistest.URL(t), acl.Sender))
	root := t.TempDir()
	dir, err := workspace.Root{Path: root}.Directory("own")
	if err != nil {
		t.Fatal(err)
	}
	wrote(t, c, "own", "web/alice", "waits", "")
	wrote(t, c, "own", "web/alice", "stopped", "")
	if _, err := c.Session("own").Cancel(limited(t), "stopped"); err != nil {
		t.Fatal(err)
	}
	k := rediskey.For("own")
	rdb.RPush(limited(t), k.Transcript("t"), `{"role":"user","text":"hi","meta":{"sender":"web/alice"}}`, `{"role":"assistant","text":"hello"}`)
	rdb.Set(limited(t), k.State(), `{"v":1,"session_id":"t","data":{"agent":"claude","session":"uuid"}}`, 0)
	wrote(t, c, "shared", "web/alice", "a", "")
	wrote(t, c, "shared", "web/bob", "b", "")
	wrote(t, c, "routed", "web/alice", "r", "chat")
	environ := []string{"REDIS_URL=" + url, "TURNSTILE_WORKSPACE_DIR=" + root}

	r := call(t, environ, "export", "--sender", "web/alice").want(t, exitOK)
	shown := filepath.Join(root, filepath.Base(dir))
	for _, want := range []string{
		`{"session":"own","shared":false,"workspace":"` + shown + `","agent_state":{"agent":"claude","session":"uuid"}}`,
		`{"session":"own","transcript":"t","entry":{"role":"user","text":"hi","meta":{"sender":"web/alice"},"turn":"","at":0}}`,
		`{"session":"own","transcript":"t","entry":{"role":"assistant","text":"hello","turn":"","at":0}}`,
		`{"session":"own","state":"pending","message":{"id":"waits","text":"waits","meta":{"sender":"web/alice"}}}`,
		`{"session":"shared","shared":true}` + "\n" + `{"session":"shared","state":"pending","message":{"id":"a","text":"a","meta":{"sender":"web/alice"}}}` + "\n",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%s lacks %s", r.out, want)
		}
	}
	if list := objects(t, r.out); len(list) != 9 || strings.Contains(r.out, "bob") {
		t.Errorf("%v", list)
	}

	r = call(t, environ, "forget", "--sender", "web/alice").want(t, exitRefused)
	if want := "own: erased, directory " + shown + `, agent state {"agent":"claude","session":"uuid"}` + "\nrouted: undelivered\nshared: shared\n" +
		"1 session is erased, 1 shared. Directories on other machines, agents' files in the worker's HOME, logs and backups are kept.\n"; r.out != want {
		t.Errorf("%q", r.out)
	}
	if want := "worker: refused: 1 session is left; run it again, for undelivered outcomes with --undelivered\n"; r.err != want {
		t.Errorf("%q", r.err)
	}
	if _, err := os.Lstat(dir); err == nil || len(traces(t, newClient(t, redistest.URL(t)), "own")) > 0 {
		t.Errorf("left: %v, %v", err, traces(t, newClient(t, redistest.URL(t)), "own"))
	}
	list := objects(t, call(t, environ, "forget", "--sender", "web/alice", "--undelivered", "--json").want(t, exitOK).out)
	if len(list) != 2 || list[0]["session"] != "routed" || list[0]["status"] != "erased" || list[1]["status"] != "shared" || list[1]["shared"] != true {
		t.Errorf("%v", list)
	}
	if info, err := c.Session("shared").Info(limited(t)); err != nil || info.Waiting != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	for _, command := range []string{"export", "forget"} {
		if r := call(t, environ, command, "--sender", "web/x\n").want(t, exitOther); r.err != `worker: no session has messages of "web/x\n"`+"\n" {
			t.Errorf("%q", r.err)
		}
	}
}

// A session that cannot be read may be anybody's: no export names it, nobody's commands end by it, and the operator learns of it.
func TestBrokenSession(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	rdb := newClient(t, acl.As(t, redistest.URL(t), acl.Sender))
	wrote(t, c, "bobs", "web/bob", "b", "")
	wrote(t, c, "own", "web/alice", "a", "")
	k := rediskey.For("bobs")
	for _, key := range []string{k.Transcript("x"), k.Run(), k.Archived(), k.Outbox()} {
		expect.OK(t, rdb.Set(limited(t), key, "x", 0).Err())
	}
	environ := []string{"REDIS_URL=" + url}
	said := func(args ...string) result {
		t.Helper()
		r := call(t, environ, args...)
		if !strings.Contains(r.err, "left out: ") || !strings.Contains(r.err, "bobs") || !strings.Contains(r.err, "a key has a wrong type: ") {
			t.Errorf("%v: stderr %q", args, r.err)
		}
		return r
	}
	if r := said("export", "--sender", "web/alice").want(t, exitOK); !strings.Contains(r.out, `"text":"a"`) || strings.Contains(r.out, "bobs") {
		t.Error(r.out)
	}
	said("export", "--sender", "web/nobody").want(t, exitOther)
	for _, list := range []string{"dead", "outbox"} {
		said(list).want(t, exitOK)
		said(list, "drop", "--all").want(t, exitOther)
	}
	for _, list := range []string{"ls", "ps"} {
		if r := call(t, environ, list).want(t, exitOK); !strings.Contains(r.out, "broken: "+k.Run()) || !strings.Contains(r.out, "\nown ") {
			t.Error(r.out)
		}
	}
	r := call(t, environ, "forget", "--sender", "web/alice").want(t, exitRefused)
	if !strings.Contains(r.out, "bobs: broken, ") || !strings.Contains(r.out, "own: erased") {
		t.Error(r.out)
	}
}

// A session has a directory beneath each agent's workspace_dir where it has worked.
func TestDirectoriesOfNamedAgents(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	top := t.TempDir()
	file := agentsFile(t, fmt.Sprintf(`{
		"a": {"sessions": ["x:*"], "agent": "echo", "workspace_dir": "%[1]s/a/"}, "b": {"sessions": ["y:*"], "agent": "echo", "workspace_dir": "%[1]s/b"},
		"c": {"sessions": ["z:*"], "agent": "echo", "workspace_dir": "%[1]s/env"}, "d": {"sessions": ["d:*"], "agent": "echo"}}`, top))
	environ := []string{"REDIS_URL=" + url, "TURNSTILE_WORKSPACE_DIR=" + top + "/env", "TURNSTILE_AGENTS_FILE=" + file}
	dirs := func(key string, roots ...string) (list []string) {
		t.Helper()
		for _, root := range roots {
			dir, err := workspace.Root{Path: filepath.Join(top, root)}.Directory(key)
			expect.OK(t, err)
			list = append(list, filepath.Join(top, root, filepath.Base(dir)))
		}
		return list
	}
	wrote(t, c, "x:1", "web/alice", "hello", "")
	wrote(t, c, "x:2", "web/alice", "hello", "")
	several, one := dirs("x:1", "a", "b", "env"), dirs("x:2", "b")
	other := dirs("x:3", "a")[0]

	list := objects(t, call(t, environ, "export", "--sender", "web/alice").want(t, exitOK).out)
	expect.Equal(t, "workspaces", fmt.Sprint(list[0]["workspaces"]), fmt.Sprint(several))
	expect.Equal(t, "the first of them", fmt.Sprint(list[0]["workspace"]), several[0])
	expect.Equal(t, "one alone", fmt.Sprintf("%v%v", list[2]["workspace"], list[2]["workspaces"]), one[0]+"<nil>")
	r := call(t, environ, "forget", "--sender", "web/alice").want(t, exitOK)
	if want := "x:1: erased, directory " + strings.Join(several, " and ") + "\nx:2: erased, directory " + one[0] + "\n"; !strings.HasPrefix(r.out, want) {
		t.Errorf("%q, want %q", r.out, want)
	}

	several = dirs("x:1", "a", "b") // again, of a session that Redis no longer knows
	list = objects(t, call(t, environ, "forget", "x:1", "--json").want(t, exitOK).out)
	expect.Equal(t, "workspaces", fmt.Sprint(list[0]["workspaces"]), fmt.Sprint(several))
	left, err := filepath.Glob(top + "/*/*")
	expect.OK(t, err)
	expect.List(t, "left", left, other)

	wrote(t, c, "x:1", "web/alice", "hello", "")
	for _, args := range [][]string{{"forget", "x:1"}, {"forget", "--sender", "web/alice"}, {"export", "--sender", "web/alice"}} {
		r := call(t, environ[:2], append(args, "--agents-file", "/gone")...).want(t, exitUsage)
		expect.Equal(t, args[0], r.err, "worker: setting TURNSTILE_AGENTS_FILE: open /gone: no such file or directory: correct the path, or let the program read it\n")
	}
	info, err := c.Session("x:1").Info(limited(t))
	expect.OK(t, err)
	expect.Equal(t, "waiting, after wrong settings", info.Waiting, 1)
}

func TestSenderUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"export":              "export takes --sender SENDER and nothing else",
		"export a":            "export takes --sender SENDER and nothing else",
		"export --sender a b": "export takes --sender SENDER and nothing else",
		"forget --sender=":    "forget takes one SESSION or --sender SENDER",
		"forget --sender a b": "forget takes one SESSION or --sender SENDER",
	} {
		command, _, _ := strings.Cut(args, " ")
		if r := call(t, nil, strings.Fields(args)...).want(t, exitUsage); r.err != "worker: "+want+"; see worker "+command+" --help\n" {
			t.Errorf("%s: %q", args, r.err)
		}
	}
}

// Ctrl-C ends it between two sessions. Another run deletes the rest.
func TestForgetSenderInterrupted(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	rdb := newClient(t, url)
	_, err := rdb.Pipelined(limited(t), func(p redis.Pipeliner) error {
		for i := range 3000 {
			p.RPush(limited(t), rediskey.For(fmt.Sprint("s", i)).Transcript("t"), `{"role":"user","text":"hi","meta":{"sender":"web/alice"}}`)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd, said := process(t, []string{"REDIS_URL=" + url}, "forget", "--sender", "web/alice")
	said.Await(t, "s0: erased")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	exits(t, cmd, said, exitInterrupted)
	if !strings.HasSuffix(said.String(), "worker: interrupted: what was deleted is gone; run it again for the rest\n") {
		t.Errorf("%q", said)
	}
	deleted := strings.Count(said.String(), ": erased\n")
	r := call(t, []string{"REDIS_URL=" + url}, "forget", "--sender", "web/alice").want(t, exitOK)
	if again := strings.Count(r.out, ": erased\n"); deleted+again != 3000 || again == 0 {
		t.Errorf("%d and %d deleted", deleted, again)
	}
	if n := rdb.DBSize(limited(t)).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}
