package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/internal/program/config"
	"turnstile/internal/version"
	"turnstile/test/redistest"
)

func TestUsage(t *testing.T) {
	t.Parallel()
	echo := "TURNSTILE_AGENT=echo"
	for name, c := range map[string]struct {
		environ []string
		args    []string
		code    int
		err     string
	}{
		"unknown flag":      {nil, []string{"--agnt", "echo"}, exitUsage, "worker: unknown flag: --agnt; see worker --help\n"},
		"unknown command":   {nil, []string{"shwo", "a"}, exitUsage, "worker: unknown command \"shwo\" for \"worker\": did you mean \"show\"? See worker --help\n"},
		"unknown argument":  {nil, []string{"ps", "x"}, exitUsage, "worker: unknown command \"x\" for \"worker ps\"; see worker ps --help\n"},
		"help of nothing":   {nil, []string{"help", "process"}, exitUsage, "worker: unknown command \"process\" for \"worker\"; see worker --help\n"},
		"help of too much":  {nil, []string{"help", "ps", "x"}, exitUsage, "worker: unknown command \"x\" for \"worker ps\"; see worker --help\n"},
		"empty --redis":     {[]string{echo}, []string{"--redis", ""}, exitUsage, "worker: --redis is empty: give it a URL, or leave it out for REDIS_URL; see worker --help\n"},
		"ps, empty --redis": {nil, []string{"ps", "--redis="}, exitUsage, "worker: --redis is empty: give it a URL, or leave it out for REDIS_URL; see worker ps --help\n"},
		"no session":        {nil, []string{"show"}, exitUsage, "worker: show takes one SESSION, but got 0; see worker show --help\n"},
		"bad session":       {nil, []string{"show", "a/b"}, exitUsage, "worker: invalid session key \"a/b\": use letters, digits and ._:@+=~- only, the first a letter or digit\n"},
		"no agent":          {nil, nil, exitUsage, "worker: setting TURNSTILE_AGENT=\"\" is not set: use one of echo, exec, acp, model, claude, codex and gemini, or start with --dev to try things out\n"},
		"all at once":       {[]string{echo, "TURNSTILE_SENTINEL_TTL=1ms", "TURNSTILE_CONCURENCY=1"}, []string{"--recovery-rate", "0"}, exitUsage, "worker: setting TURNSTILE_CONCURENCY is unknown: did you mean TURNSTILE_CONCURRENCY?\nworker: setting TURNSTILE_SENTINEL_TTL=\"1ms\" is too small: use at least 1s\nworker: setting TURNSTILE_RECOVERY_RATE=\"0\" is too small: use a rate above 0, such as 50/s\n"},
		"no such command":   {nil, []string{"--agent", "exec", "--agent-command", "/no/such/agent"}, exitUsage, "worker: setting TURNSTILE_AGENT_COMMAND: exec: \"/no/such/agent\": stat /no/such/agent: no such file or directory\n"},
		"dashboard address": {nil, []string{"dashboard", "--http-addr", "8080"}, exitUsage, "worker: setting TURNSTILE_HTTP_ADDR=\"8080\" cannot be used: it is not HOST:PORT, such as 127.0.0.1:8080\n"},
		"ps, no Redis":      {nil, []string{"ps", "--redis", "redis://127.0.0.1:1/0"}, exitOther, "worker: Redis at 127.0.0.1:1 refuses the connection: is it running, and is REDIS_URL right? (dial tcp 127.0.0.1:1: connect: connection refused)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := call(t, c.environ, c.args...).want(t, c.code); r.err != c.err || r.out != "" {
				t.Errorf("stdout %q\nstderr %q\nwant   %q", r.out, r.err, c.err)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	r := call(t, nil, "--help").want(t, exitOK)
	for _, s := range config.WorkerSettings() {
		if !strings.Contains(r.out, "  "+s.Name+" ("+s.Unit+"; default ") {
			t.Errorf("--help lacks %s", s.Name)
		}
	}
	for _, args := range [][]string{{"--help"}, {"ps", "--help"}, {"show", "--help"}, {"dead", "--help"}, {"dead", "drop", "--help"}, {"outbox", "--help"}, {"outbox", "drop", "--help"}, {"export", "--help"}, {"forget", "--help"}, {"dashboard", "--help"}, {"health", "--help"}} {
		r := call(t, nil, args...).want(t, exitOK)
		for line := range strings.Lines(r.out) {
			if len(line) > 100 {
				t.Errorf("%v: a long line: %q", args, line)
			}
		}
	}
	for _, of := range []string{"", "ps", "dead drop"} {
		want := call(t, nil, append(strings.Fields(of), "--help")...).out
		if r := call(t, nil, append([]string{"help"}, strings.Fields(of)...)...).want(t, exitOK); r.out != want {
			t.Errorf("help %s differs from %[1]s --help: %.2000q", of, r.out)
		}
	}
	if r := call(t, nil, "--version").want(t, exitOK); !strings.HasPrefix(r.out, "worker version "+version.Number) {
		t.Errorf("--version says %q", r.out)
	}
}

// Each setting has a flag, which overrides its variable.
func TestFlags(t *testing.T) {
	t.Parallel()
	var args []string
	for _, s := range config.WorkerSettings() {
		if s.Name != "REDIS_URL" {
			args = append(args, "--"+config.FlagName(s.Name)+"="+other[s.Name])
		}
	}
	args = append(args, "--redis", "gopher://x", "--dashboard-write", "--concurrency", "0")
	r := call(t, []string{"TURNSTILE_CONCURRENCY=5"}, args...).want(t, exitUsage)
	for _, want := range []string{"REDIS_URL", "TURNSTILE_CONCURRENCY=\"0\"", "TURNSTILE_AGENT="} {
		if !strings.Contains(r.err, want) {
			t.Errorf("%s is not found fault with: %s", want, r.err)
		}
	}
}

func TestUnfitRedis(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	server := redistest.StartServer(t, "--requirepass", "secret")
	r := call(t, []string{"TURNSTILE_AGENT=echo", "REDIS_URL=redis://" + server.Addr()}).want(t, exitOther)
	if strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, "wants a password") {
		t.Errorf("stderr %q", r.err)
	}
	open := redistest.StartServer(t, "--maxmemory-policy", "allkeys-lru", "--save", "", "--appendonly", "no")
	w := echoWorker(t, "redis://"+open.Addr())
	w.stop(t)
	for _, want := range []string{"evicts keys", "stores nothing on disk"} {
		if !strings.Contains(w.err.String(), want) {
			t.Errorf("it does not warn that Redis %s: %s", want, w.err)
		}
	}
}

// Each flag with a secret warns: other users can read it in the process list.
func TestSecretsInFlagsWarn(t *testing.T) {
	t.Parallel()
	w := start(t, []string{"REDIS_URL=" + redistest.URL(t), "TURNSTILE_AGENT=echo", "TURNSTILE_LOG_LEVEL=error"}, "--http-token", "hunter2", "--model-key", "hunter3", "--http-addr", freeAddr(t))
	w.err.Await(t, "--model-key can be read by other users of this machine")
	w.stop(t)
	if said := w.err.String(); strings.Count(said, "\n") != 2 || !strings.HasPrefix(said, "worker: --http-token can be read") || strings.Contains(said, "hunter") {
		t.Errorf("stderr %q", said)
	}
}

// With a Redis that the user names, in a file too, --dev does not enable the dashboard's writes.
func TestDevHeedsRedisURLFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("redis://db"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := newProgram([]string{"REDIS_URL_FILE=" + path}, nil).settings(nil, true)
	if err != nil || s.DashboardWrite || !s.RedisURLSet || s.RedisURL != "redis://db" {
		t.Errorf("%+v, %v", s, err)
	}
}
