package program_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"turnstile"
	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	programs "turnstile/test/program"
	"turnstile/test/redistest"
)

// A program with a Go agent takes settings as flags, has a help, and refuses what it does not know.
func TestArguments(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	expect.OK(t, err)
	for args, c := range map[string]struct {
		code     int
		out, err string
	}{
		"--help":             {0, "TURNSTILE_CONCURRENCY (", ""},
		"-h":                 {0, "program.test --dev ", ""},
		"--version":          {0, "program.test ", ""},
		"serve":              {2, "", `program.test: unknown argument "serve"; see program.test --help` + "\n"},
		"--concurency=3":     {2, "", "program.test: unknown flag: --concurency; see program.test --help\n"},
		"--agent=echo":       {2, "", "program.test: unknown flag: --agent; see program.test --help\n"},
		"--concurrency=many": {2, "", "program.test: setting TURNSTILE_CONCURRENCY="},
		"--redis=redis://127.0.0.1:1/0 --drain-timeout=1s": {1, "", "refuses the connection"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			cmd := programs.Command(t, self, []string{childVariable + "=1"}, strings.Fields(args)...)
			var out, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &stderr
			expect.Equal(t, "exit code", programs.Start(t, cmd).ExitCode(), c.code)
			if !strings.Contains(out.String(), c.out) || !strings.Contains(stderr.String(), c.err) || c.err == "" && stderr.Len() > 0 || strings.Contains(out.String(), "TURNSTILE_AGENT_COMMAND") {
				t.Errorf("%q, %q", &out, &stderr)
			}
		})
	}
}

// --dev needs no Redis.
func TestDev(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	self, err := os.Executable()
	expect.OK(t, err)
	cmd := programs.Command(t, self, []string{childVariable + "=1", "TURNSTILE_HTTP_ADDR=127.0.0.1:0"}, "--dev")
	p := programs.Start(t, cmd)
	p.Output.Await(t, "asynqmon: http://turnstile:")
	found := regexp.MustCompile(`REDIS_URL=(\S+) enqueue -s demo`).FindStringSubmatch(p.Output.String())
	if found == nil {
		t.Fatal(p.Output.String())
	}
	rdb, err := redisconn.Open(found[1])
	expect.OK(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	client := turnstile.NewClient(rdb).Session("a")
	sent, err := client.Send(t.Context(), turnstile.Message{Text: "hello"})
	expect.OK(t, err)
	end, err := client.Wait(t.Context(), sent.ID)
	expect.OK(t, err)
	expect.Equal(t, "status", end.Status, session.StatusFailed)
	p.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code", p.ExitCode(), 0)
}
