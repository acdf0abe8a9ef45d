package acp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"turnstile/internal/process/guardian"
	"turnstile/pkg/agent"
	"turnstile/test/expect"
)

// confined is an agent with a workspace, and the directory of the test's session.
func confined(t *testing.T, args ...string) (*Agent, string) {
	t.Helper()
	a := newAgent(t, Config{
		Command: actorCommand(t, args...), Workspace: filepath.Join(t.TempDir(), "made", "here"), Files: true, Terminal: true, Env: []string{"ACP_TEST_*"},
	})
	dir, err := a.directory(t.Name())
	expect.OK(t, err)
	return a, dir
}

// calls makes a turn of requests and returns the response to each.
func calls(t *testing.T, a *Agent, requests ...string) []string {
	t.Helper()
	var lines []string
	for _, r := range requests {
		method, params, _ := strings.Cut(r, " ")
		lines = append(lines, "call "+method+` {"sessionId":"SESSION",`+params[1:])
	}
	h, err := play(t.Context(), a, turnWith(t, lines...))
	expect.OK(t, err)
	answers := strings.Split(strings.TrimSuffix(h.text(), "\n"), "\n")
	if len(answers) != len(requests) {
		t.Fatalf("%d answers to %d requests: %q", len(answers), len(requests), answers)
	}
	return answers
}

func TestFiles(t *testing.T) {
	t.Parallel()
	a, dir := confined(t)
	secret := filepath.Join(filepath.Dir(dir), "secret")
	expect.OK(t, os.WriteFile(secret, []byte("do not read"), 0o600))
	write := func(name, text string) { expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	write("lines", "one\ntwo\nthree")
	write("binary", "a\xff")
	write("huge", strings.Repeat("0123456789\n", maxFile/10))
	expect.OK(t, os.Symlink(secret, filepath.Join(dir, "link")))
	expect.OK(t, os.Symlink("../secret", filepath.Join(dir, "up")))
	expect.OK(t, os.Symlink("lines", filepath.Join(dir, "inner")))
	expect.OK(t, os.Symlink(filepath.Dir(dir), filepath.Join(dir, "outer")))
	expect.OK(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))

	read := func(path, more string) string { return fmt.Sprintf(`fs/read_text_file {"path":%q%s}`, path, more) }
	put := func(path string) string { return fmt.Sprintf(`fs/write_text_file {"path":%q,"content":"new"}`, path) }
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct{ request, want string }{
		{read(in("lines"), ""), `"one\ntwo\nthree"`},
		{read("lines", ""), `"one\ntwo\nthree"`},
		{read(in("inner"), `,"line":2`), `"two\nthree"`},
		{read(in("lines"), `,"line":2,"limit":1`), `"two\n"`},
		{read(in("lines"), `,"limit":2`), `"one\ntwo\n"`},
		{read(in("lines"), `,"line":0,"limit":0`), `""`},
		{read(in("lines"), `,"line":9`), `""`},
		{read(in("huge"), `,"line":400000,"limit":1`), `"0123456789\n"`},
		{read(in("huge"), ""), "read fewer lines"},
		{read(in("binary"), ""), "not UTF-8 text"},
		{read(in("none"), ""), `"code":-32002`},
		{read(dir, ""), "not a regular file"},
		{read(in("fifo"), ""), "not a regular file"},
		{read(in("lines"), `,"line":"two"`), `"code":-32602`},
		{read(secret, ""), "not in the session's directory"},
		{read(in("../secret"), ""), "not in the session's directory"},
		{read("../secret", ""), "not in the session's directory"},
		{read("/etc/passwd", ""), "not in the session's directory"},
		{read(dir+"-not", ""), "not in the session's directory"},
		{read("", ""), "not a regular file"},
		{read(in("link"), ""), "escapes"},
		{read(in("up"), ""), "escapes"},
		{read(in("outer/secret"), ""), "escapes"},
		{put(in("link")), "escapes"},
		{put(in("up")), "escapes"},
		{put(in("outer/fresh")), "escapes"},
		{put(secret), "not in the session's directory"},
		{put(in("fifo")), "error"},
		{put(in("deep/er/file")), `"result":{}`},
		{put(in("inner")), `"result":{}`},
	} {
		if got := calls(t, a, c.request)[0]; !strings.Contains(got, c.want) || strings.Contains(got, "do not read") {
			t.Errorf("%s: %.300s, want %s", c.request, got, c.want)
		}
	}
	for path, want := range map[string]string{secret: "do not read", in("lines"): "new", in("deep/er/file"): "new"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "fresh")); err == nil {
		t.Error("a file was made outside")
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// A command that did not run is never reported as a success.
func TestExitOfATerminal(t *testing.T) {
	t.Parallel()
	for want, status := range map[string]guardian.Status{
		`{"exitCode":0}`:      {},
		`{"exitCode":3}`:      {Code: 3},
		`{"exitCode":127}`:    {StartError: errors.New("x")},
		`{"signal":"killed"}`: {GuardianDied: true},
		`{"signal":"hangup"}`: {Signal: syscall.SIGHUP},
	} {
		exit := (&terminal{status: status}).exit()
		if got, err := json.Marshal(exit); err != nil || string(got) != want {
			t.Errorf("%s, want %s (%v)", got, want, err)
		}
	}
	a, _ := confined(t)
	for _, params := range []string{
		`{"command":"echo","args":["a\u0000b"]}`, `{"command":"echo","env":[{"name":"A","value":"\u0000"}]}`,
		`{"command":"echo","env":[{"name":"A=B","value":"c"}]}`, `{"command":"echo","env":[{"name":"","value":"c"}]}`,
	} {
		if got := calls(t, a, "terminal/create "+params)[0]; !strings.Contains(got, `"code":-32602`) {
			t.Errorf("%s: %s", params, got)
		}
	}
}

func TestALinkForADirectory(t *testing.T) {
	t.Parallel()
	a, dir := confined(t)
	expect.OK(t, os.Remove(dir))
	expect.OK(t, os.Symlink("/", dir))
	_, err := play(t.Context(), a, turnWith(t, "text a"))
	failed(t, err, false, "is no directory")
}

func TestTerminals(t *testing.T) {
	t.Parallel()
	a, dir := confined(t)
	expect.OK(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	expect.OK(t, os.WriteFile(filepath.Join(dir, "sub", "hello"), []byte("#!/bin/sh\necho hello from $PWD\n"), 0o700))
	expect.OK(t, os.Symlink("/", filepath.Join(dir, "out")))
	create := func(more, command string, args ...string) string {
		list, err := json.Marshal(args)
		expect.OK(t, err)
		return fmt.Sprintf(`terminal/create {"command":%q,"args":%s%s}`, command, list, more)
	}
	wait := `terminal/wait_for_exit {"terminalId":"terminal-1"}`
	output := `terminal/output {"terminalId":"terminal-1"}`
	for _, c := range []struct{ create, exit, output string }{
		{create("", "sh", "-c", "echo out; echo err >&2; exit 3"), `{"result":{"exitCode":3}}`, `{"result":{"exitStatus":{"exitCode":3},"output":"out\nerr\n","truncated":false}}`},
		{create("", "pwd"), `{"result":{"exitCode":0}}`, `"output":"` + dir + `\n"`},
		{create(`,"cwd":"sub"`, "pwd"), `{"result":{"exitCode":0}}`, `"output":"` + dir + `/sub\n"`},
		{create(`,"cwd":"`+dir+`/sub"`, "./hello"), `{"result":{"exitCode":0}}`, `hello from ` + dir + `/sub\n`},
		{create("", "sh", "-c", "kill -TERM $$"), `{"result":{"signal":"terminated"}}`, `"exitStatus":{"signal":"terminated"}`},
		{create(`,"outputByteLimit":4`, "printf", "123äöü"), `{"result":{"exitCode":0}}`, `"output":"öü","truncated":true`},
		{create(`,"outputByteLimit":3`, "printf", "123äöü"), `{"result":{"exitCode":0}}`, `"output":"ü","truncated":true`},
		{create(`,"outputByteLimit":10`, "sh", "-c", "yes | head -c 3000000; echo end"), `{"result":{"exitCode":0}}`, `"output":"y\ny\ny\nend\n","truncated":true`},
		{create(`,"env":[{"name":"ACP_TEST_ONE","value":"two"}]`, "sh", "-c", `echo "$ACP_TEST_ONE|$REDIS_URL"; env | grep ^TURNSTILE`), `{"result":{"exitCode":0}}`, `"output":"two|\nTURNSTILE_SESSION=TestTerminals\n"`},
		{create("", "cat"), `{"result":{"exitCode":0}}`, `"output":""`},
		{create("", "printf", "%s", "$(id); `id`"), `{"result":{"exitCode":0}}`, "\"output\":\"$(id); `id`\""},
	} {
		got := calls(t, a, c.create, wait, output)
		if got[1] != c.exit || !strings.Contains(got[2], c.output) {
			t.Errorf("%s: %q", c.create, got)
		}
	}
	for request, want := range map[string]string{
		create("", "no-such-program"):                `"code":-32002`,
		create("", "ls -l"):                          "no shell runs it",
		create("", ""):                               `"code":-32602`,
		create(`,"cwd":"/"`, "ls"):                   "not in the session's directory",
		create(`,"cwd":"out"`, "ls"):                 "escapes",
		create(`,"cwd":"../"`, "ls"):                 "not in the session's directory",
		create(`,"cwd":"sub/hello"`, "ls"):           "not a directory",
		output:                                       "there is no terminal",
		`terminal/dance {"terminalId":"terminal-1"}`: "there is no terminal",
		`fs/delete {"path":"x"}`:                     `"code":-32601`,
	} {
		if got := calls(t, a, request)[0]; !strings.Contains(got, `"error"`) || !strings.Contains(got, want) {
			t.Errorf("%s: %s", request, got)
		}
	}
	got := calls(t, a, create("", "sleep", "1000"), output, `terminal/dance {"terminalId":"terminal-1"}`,
		`terminal/kill {"terminalId":"terminal-1"}`, wait, `terminal/release {"terminalId":"terminal-1"}`, output)
	want := []string{
		`{"result":{"terminalId":"terminal-1"}}`, `{"result":{"output":"","truncated":false}}`, `-32601`,
		`{"result":{}}`, `{"result":{"signal":"killed"}}`, `{"result":{}}`, `there is no terminal`,
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%s, want %s", got[i], want[i])
		}
	}
}

// Terminals are isolated as the agent is, and a variable that the agent chose is not the wrapper's.
func TestTerminalsAreIsolated(t *testing.T) {
	t.Parallel()
	a := newAgent(t, Config{
		Command: actorCommand(t), Workspace: filepath.Join(t.TempDir(), "work"), Terminal: true,
		Isolation: agent.Isolation{Level: agent.IsolationWrapper, Wrapper: []string{"sh", "-c", `WRAPPED=yes-$CHOSEN exec "$@"`, "sh"}},
	})
	got := calls(t, a, `terminal/create {"command":"sh","args":["-c","echo $WRAPPED $CHOSEN"],"env":[{"name":"CHOSEN","value":"it"}]}`,
		`terminal/wait_for_exit {"terminalId":"terminal-1"}`, `terminal/output {"terminalId":"terminal-1"}`)
	if !strings.Contains(got[2], `"output":"yes- it\n"`) {
		t.Errorf("%q", got)
	}
}

func TestTerminalsEndWithTheTurn(t *testing.T) {
	t.Parallel()
	a, _ := confined(t)
	w := warmed(t, a, turnWith(t))
	// One keeps running, and one is awaited when the turn ends.
	h, err := runWarm(t, w, turnWith(t,
		`call terminal/create {"sessionId":"SESSION","command":"sh","args":["-c","echo $$; exec sleep 1000"]}`,
		`call terminal/create {"sessionId":"SESSION","command":"sleep","args":["1000"]}`,
		`ask terminal/wait_for_exit {"sessionId":"SESSION","terminalId":"terminal-1"}`,
		`ask terminal/wait_for_exit {"sessionId":"SESSION","terminalId":"terminal-2"}`,
	))
	expect.OK(t, err)
	if n := strings.Count(h.text(), "terminalId"); n != 2 {
		t.Fatal(h.text())
	}
	if out := processesWith(t, "TURNSTILE_SESSION="+t.Name()); runtime.GOOS == "linux" && len(out) != 1 {
		t.Errorf("processes of the session: %v, want the agent", out)
	}
	// The agent lives on, and sends requests while no turn runs.
	h, err = runWarm(t, w, turnWith(t, "text still here"))
	expect.OK(t, err)
	if h.text() != "still here" {
		t.Error(h.text())
	}
}

func TestTooMuchAtOnce(t *testing.T) {
	t.Parallel()
	a, _ := confined(t)
	var lines []string
	for range maxTerminals + 1 {
		lines = append(lines, `call terminal/create {"sessionId":"SESSION","command":"sleep","args":["1000"]}`)
	}
	for range maxRequests + 1 {
		lines = append(lines, `ask terminal/wait_for_exit {"sessionId":"SESSION","terminalId":"terminal-1"}`)
	}
	h, err := play(t.Context(), a, turnWith(t, append(lines, "answers 1")...))
	expect.OK(t, err)
	if !strings.Contains(h.text(), "release one first") || !strings.Contains(h.text(), "asks for too much at once") {
		t.Errorf("%s", h.text())
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	a, dir := confined(t)
	h, err := play(t.Context(), a, turnWith(t, "env"))
	expect.OK(t, err)
	for text, want := range map[string]bool{
		"TURNSTILE_SESSION=" + t.Name(): true, "ACP_TEST_ONE=1": true, "REDIS_URL": false, "TURNSTILE_TEST_SECRET": false, "TURNSTILE_TURN_ID": false,
	} {
		if strings.Contains(h.text(), text) != want {
			t.Errorf("%s in the agent's environment: %v", text, !want)
		}
	}
	if !strings.Contains(filepath.Dir(dir), "made") {
		t.Error(dir)
	}
}

// processesWith are the processes with this in their environment.
func processesWith(t *testing.T, env string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	expect.OK(t, err)
	for _, path := range all {
		if data, err := os.ReadFile(path); err == nil && strings.Contains("\x00"+string(data), "\x00"+env+"\x00") {
			pids = append(pids, path)
		}
	}
	return pids
}
