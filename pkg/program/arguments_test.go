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
		"--help":                           {0, "TURNSTILE_CONCURRENCY (", ""},
		"-h":                               {0, "program.test --dev ", ""},
		"--version":                        {0, "program.test ", ""},
		"serve":                            {2, "", `program.test: unknown command "serve" for "program.test"; see program.test --help` + "\n"},
		"shwo a":                           {2, "", `program.test: unknown command "shwo" for "program.test": did you mean "show"? See program.test --help` + "\n"},
		"show":                             {2, "", "program.test: show takes one SESSION, but got 0; see program.test show --help\n"},
		"agents":                           {2, "", `program.test: unknown command "agents" for "program.test"; see program.test --help` + "\n"},
		"forget --help":                    {0, "program.test forget SESSION", ""},
		"ps --redis=redis://127.0.0.1:1/0": {1, "", "program.test: Redis at 127.0.0.1:1 refuses the connection"},
		"--concurency=3":                   {2, "", "program.test: unknown flag: --concurency; see program.test --help\n"},
		"--agent=echo":                     {2, "", "program.test: unknown flag: --agent; see program.test --help\n"},
		"--concurrency=many":               {2, "", "program.test: setting TURNSTILE_CONCURRENCY="},
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

// The dashboard asks for a token, whatever TURNSTILE_AGENT says of another program's agent: the program's own may run programs.
func TestDashboardIsClosed(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	expect.OK(t, err)
	p := programs.Start(t, programs.Command(t, self, []string{
		childVariable + "=1", "REDIS_URL=" + redistest.URL(t), "TURNSTILE_AGENT=echo", "TURNSTILE_HTTP_ADDR=127.0.0.1:0",
	}, "dashboard"))
	p.Output.Await(t, "a password for this run")
	p.Signal(syscall.SIGTERM)
	expect.Equal(t, "exit code", p.ExitCode(), 0)
}

// The program has worker's commands, and they name it. The agent does not run for them.
func TestCommands(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	expect.OK(t, err)
	url := redistest.URL(t)
	call := func(code int, args ...string) (out, err string) {
		cmd := programs.Command(t, self, []string{childVariable + "=1", "REDIS_URL=" + url}, args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		expect.Equal(t, strings.Join(args, " ")+": exit code", programs.Start(t, cmd).ExitCode(), code)
		return stdout.String(), stderr.String()
	}
	help, _ := call(0, "--help")
	for _, name := range []string{"ps", "ls", "show", "audit", "dead", "outbox", "export", "forget", "dashboard", "health"} {
		if !strings.Contains(help, "\n  "+name+" ") {
			t.Errorf("--help lacks %s: %s", name, help)
		}
	}
	if strings.Contains(help, "\n  agents ") || strings.Contains(help, "TURNSTILE_AGENT_COMMAND") {
		t.Errorf("--help has what the program has not: %s", help)
	}

	rdb := redistest.New(t)
	client := turnstile.NewClient(rdb).Session("web:1")
	_, err = client.Send(t.Context(), turnstile.Message{Text: "hello"})
	expect.OK(t, err)
	out, stderr := call(0, "ps")
	if !strings.Contains(out, "web:1 ") || !strings.HasPrefix(stderr, "program.test: no worker is running") {
		t.Errorf("ps: %q, %q", out, stderr)
	}
	out, _ = call(0, "show", "web:1")
	if !strings.Contains(out, "waits for a worker") {
		t.Errorf("show: %q", out)
	}
	out, _ = call(0, "dead")
	expect.Equal(t, "dead", out, "No dead letters.\n")
	_, stderr = call(1, "show", "web:2")
	expect.Equal(t, "show of an unknown session", stderr, "program.test: session web:2 is unknown: it never had a message, or it was forgotten\n")
	out, _ = call(0, "outbox", "pause", "bot")
	expect.Equal(t, "a command that names another", out, "Destination bot is paused. Its deliveries wait until: program.test outbox enable bot\n")
	_, err = client.Stop(t.Context())
	expect.OK(t, err)
	out, _ = call(0, "dead", "rerun", "web:1")
	if !strings.Contains(out, "1 dead letter") {
		t.Errorf("dead rerun: %q", out)
	}
	out, _ = call(0, "forget", "web:1", "--json")
	if !strings.Contains(out, `"web:1"`) {
		t.Errorf("forget: %q", out)
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
