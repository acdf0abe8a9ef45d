package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/redistest"
)

// Each flag with a secret warns: other users can read it in the process list.
func TestSecretsInFlagsWarn(t *testing.T) {
	t.Parallel()
	w := start(t, []string{"REDIS_URL=" + redistest.URL(t), "TURNSTILE_AGENT=echo", "TURNSTILE_LOG_LEVEL=error"}, "--http-token", "hunter2", "--openai-api-key", "hunter3", "--http-addr", freeAddr(t))
	w.err.Await(t, "--openai-api-key can be read by other users of this machine")
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
	s, err := (&program{environ: []string{"REDIS_URL_FILE=" + path}}).settings(nil, true)
	if err != nil || s.DashboardWrite || !s.RedisURLSet || s.RedisURL != "redis://db" {
		t.Errorf("%+v, %v", s, err)
	}
}
