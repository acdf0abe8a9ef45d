package main

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/internal/program/httpd"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	programs "turnstile/test/program"
	"turnstile/test/watched"
)

// unread starts the built program with stdout and stderr on a full pipe, and returns its other end.
func unread(t *testing.T, environ []string, args ...string) (*programs.Process, *os.File) {
	t.Helper()
	r, w := watched.FullPipe(t)
	cmd := newCommand(t, environ, args...)
	cmd.Stdout, cmd.Stderr = w, w
	p := programs.Start(t, cmd)
	_ = w.Close()
	return p, r
}

// Nobody reads the log: all turns are done, and a drain ends as it should. A reader who comes back reads how many
// lines are missing.
func TestNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	url, c := newRedis(t)
	addr, file := freeAddr(t), filepath.Join(t.TempDir(), "file")
	p, r := unread(t, []string{
		"REDIS_URL=" + url, "TURNSTILE_HTTP_ADDR=" + addr, "TURNSTILE_LOG_LEVEL=debug", "TURNSTILE_AGENT=exec",
		// Its stderr is more than the worker keeps.
		`TURNSTILE_AGENT_COMMAND=sh -c 'head -c 1500000 /dev/zero | tr "\0" x >&2; read -r file; echo begun .; until [ -e "$file" ]; do sleep 0.1; done'`,
	})
	ends := func(key, id string) {
		t.Helper()
		if end, err := c.Session(key).Wait(limited(t), id); err != nil || end.Status != session.StatusDone {
			t.Fatalf("%+v, %v", end, err)
		}
	}
	ends("a", send(t, c, "a", "/"))
	ends("a", send(t, c, "a", "/"))
	if code, body := page(t, addr, "/readyz"); code != 200 {
		t.Errorf("/readyz within a minute: %d %s", code, body)
	}
	expect.OK(t, r.SetReadDeadline(time.Now().Add(waits)))
	gap := regexp.MustCompile(`level=WARN msg="log lines were left out: nobody read the log" lines=(\d+)\n$`)
	var left []string
	for log := bufio.NewReader(r); left == nil; {
		line, err := log.ReadString('\n')
		expect.OK(t, err)
		left = gap.FindStringSubmatch(line)
	}
	if _, body := page(t, addr, "/metrics"); !strings.Contains(body, "\nturnstile_log_lines_left_out_total "+left[1]+"\n") {
		t.Errorf("%s lines are missing in the log, but /metrics is:\n%s", left[1], body)
	}

	id := send(t, c, "a", file) // and again nobody reads
	untilText(t, c, "a", id, "begun .")
	p.Signal(syscall.SIGTERM)
	untilEvent(t, c, "a", id, session.EventNotice)
	expect.OK(t, os.WriteFile(file, nil, 0o600))
	expect.Equal(t, "exit code", p.ExitCode(), exitOK)
	ends("a", id)
}

// What a program says at its start and at its end keeps it from neither.
func TestEndsThoughNobodyReads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		signal syscall.Signal // 0: it ends by itself
		code   int
	}{
		"wrong flag":             {[]string{"--nothing"}, 0, exitUsage},
		"wrong setting":          {[]string{"--concurrency", "many"}, 0, exitUsage},
		"a password in a flag":   {[]string{"--redis", "http://:password@127.0.0.1"}, 0, exitUsage},
		"SIGTERM":                {nil, syscall.SIGTERM, exitOK},
		"SIGHUP":                 {nil, syscall.SIGHUP, exitRestart},
		"SIGTERM of --dev":       {[]string{"--dev"}, syscall.SIGTERM, exitOK},
		"SIGTERM of a dashboard": {[]string{"dashboard"}, syscall.SIGTERM, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, sender := newRedis(t)
			addr := freeAddr(t)
			p, _ := unread(t, []string{"REDIS_URL=" + url, "TURNSTILE_AGENT=exec", "TURNSTILE_AGENT_COMMAND=cat", "TURNSTILE_HTTP_ADDR=" + addr}, c.args...)
			if c.signal != 0 {
				expect.Soon(t, "the service", func() bool { return httpd.HealthCheck(t.Context(), addr) == nil })
				if !slices.Contains(c.args, "dashboard") {
					reply(t, sender, "a", "hello")
				}
				p.Signal(c.signal)
			}
			expect.Equal(t, "exit code", p.ExitCode(), c.code)
		})
	}
}
