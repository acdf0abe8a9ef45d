package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/redistest"
)

// A password in a flag can be read in the process list: it warns, and works for one
// more version.
func TestAPasswordInAFlagWarns(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	server := redistest.StartServer(t, "--requirepass", "hunter2")
	secret := "redis://:hunter2@" + server.Addr()
	r := enqueue(t, context.Background(), "", "", "--redis", secret, "-s", "s", "hello").want(t, exitOK)
	if strings.Count(r.err, "\n") != 1 || !strings.HasPrefix(r.err, "enqueue: --redis has a password that other users of this machine can read") || strings.Contains(r.err, "hunter2") {
		t.Errorf("stderr %q", r.err)
	}
	r = enqueue(t, context.Background(), "", "", "--redis", redistest.URL(t), "-s", "s", "hello").want(t, exitOK)
	if r.err != "" {
		t.Errorf("without a password: stderr %q", r.err)
	}
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, stderr strings.Builder
	if code := run(context.Background(), []string{"-s", "s", "hello"}, strings.NewReader(""), &out, &stderr, []string{"REDIS_URL_FILE=" + path}); code != exitOK || stderr.String() != "" {
		t.Errorf("from a file: exit code %d, stderr %q", code, stderr.String())
	}
}
