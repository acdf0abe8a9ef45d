package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// start starts the built program. finish waits for its end.
func start(t *testing.T, url, stdin string, args ...string) (cmd *exec.Cmd, finish func() result) {
	t.Helper()
	cmd = exec.Command(program.Build(t, "turnstile/cmd/enqueue"), args...)
	var out, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &stderr
	cmd.Env = []string{"REDIS_URL=" + url}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, func() result {
		_ = cmd.Wait() // the exit code tells
		return result{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
	}
}

func TestBinary(t *testing.T) {
	t.Parallel()
	url, _ := newRedis(t)
	turns(t, url, hour, echo)
	for name, c := range map[string]struct {
		url, stdin string
		args       []string
		code       int
		out, err   string
	}{
		"wait":        {url, "", []string{"-s", "a", "--wait", "hello"}, exitOK, "echo: hello\n", ""},
		"stdin":       {url, "two\nlines\n", []string{"-s", "a", "--wait", "-"}, exitOK, "echo: two\nlines\n", ""},
		"failed":      {url, "", []string{"-s", "a", "--wait", "--id", "f", "fail badly"}, exitEnded, "", "enqueue: message f failed: badly\n"},
		"usage":       {url, "", []string{"hello"}, exitUsage, "", "enqueue: no session: name one with -s SESSION; see enqueue --help\n"},
		"unreachable": {nowhere, "", []string{"-s", "a", "x"}, exitOther, "", "enqueue: Redis at 127.0.0.1:1 refuses the connection: is it running, and is REDIS_URL right? (dial tcp 127.0.0.1:1: connect: connection refused); nothing was stored\n"},
		"file":        {url, `{"session":"b","text":"x"}` + "\nnonsense\n", []string{"--file", "-"}, exitUsage, "1 sent (1 accepted), 1 bad line\n", "enqueue: line 2: invalid JSON: invalid character 'o' in literal null (expecting 'u')\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, finish := start(t, c.url, c.stdin, c.args...)
			if r := finish(); r != (result{c.code, c.out, c.err}) {
				t.Errorf("got  %+v\nwant %+v", r, result{c.code, c.out, c.err})
			}
		})
	}
}

func TestBinaryCtrlC(t *testing.T) {
	t.Parallel()
	redistest.Real(t) // for CLIENT LIST
	for _, flag := range []string{"--wait", "--follow"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			url, rdb := newRedis(t)
			cmd, finish := start(t, url, "", "-s", "a", "--id", "m", flag, "hello")
			expect.Soon(t, "the wait to begin", func() bool {
				list, err := rdb.Do(bg(t), "CLIENT", "LIST").Text()
				return err == nil && hasWaiter(list, url)
			})
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			finish().want(t, exitInterrupted).oneLine(t, "interrupted", "stays", "enqueue -s a --id m --follow --after 0-0\n")
			turns(t, url, hour, echo)
			if r := enqueue(t, bg(t), url, "", "-s", "a", "--id", "m", "--wait", "hello").want(t, exitOK); r.out != "echo: hello\n" {
				t.Errorf("%+v", r)
			}
		})
	}
}

// hasWaiter looks for the program's blocking read in url's database.
func hasWaiter(clients, url string) bool {
	db := " db=" + url[strings.LastIndex(url, "/")+1:] + " "
	for line := range strings.Lines(clients) {
		if strings.Contains(line, "name=turnstile-enqueue ") && strings.Contains(line, "cmd=xread") && strings.Contains(line, db) {
			return true
		}
	}
	return false
}
