package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/redistest"
)

// A flag can be read in the process list. One with a secret warns, and works for one
// more version; files and the environment do not warn.
func TestSecretsInFlagsWarn(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	server := redistest.StartServer(t, "--requirepass", "hunter2")
	secret := "redis://:hunter2@" + server.Addr()
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		environ, args []string
		warnings      []string // a part of each line on stderr
	}{
		"a password in --redis": {nil, []string{"ls", "--redis", secret}, []string{"worker: --redis has a password that other users"}},
		"in the environment":    {[]string{"REDIS_URL=" + secret}, []string{"ls"}, nil},
		"in a file":             {[]string{"REDIS_URL_FILE=" + path}, []string{"ls"}, nil},
	} {
		r := call(t, c.environ, c.args...).want(t, exitOK)
		if lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n"); c.warnings == nil && r.err != "" || c.warnings != nil && (len(lines) != 1 || !strings.HasPrefix(lines[0], c.warnings[0])) {
			t.Errorf("%s: stderr %q", name, r.err)
		}
		if strings.Contains(r.err, "hunter2") {
			t.Errorf("%s: it repeats the password: %q", name, r.err)
		}
	}

	open := redistest.URL(t)
	if r := call(t, nil, "ls", "--redis", open).want(t, exitOK); r.err != "" {
		t.Errorf("--redis without a password: stderr %q", r.err)
	}
	w := start(t, []string{"REDIS_URL=" + open, "TURNSTILE_AGENT=echo", "TURNSTILE_LOG_LEVEL=error"}, "--http-token", "hunter2", "--openai-api-key", "hunter3", "--http-addr", freeAddr(t))
	w.err.Await(t, "--openai-api-key can be read by other users of this machine")
	w.stop(t)
	if said := w.err.String(); strings.Count(said, "\n") != 2 || !strings.HasPrefix(said, "worker: --http-token can be read") || strings.Contains(said, "hunter") {
		t.Errorf("stderr %q", said)
	}
}

// With a Redis of somebody else's, be it named in a file, --dev changes nothing by
// itself.
func TestDevHeedsRedisURLFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("redis://db"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := (&program{environ: []string{"REDIS_URL_FILE=" + path}}).settings(nil, true)
	if err != nil || s.DashboardWrite || !s.RedisURLSet || s.RedisURL != "redis://db" {
		t.Errorf("%+v, %v", s, err)
	}
}
