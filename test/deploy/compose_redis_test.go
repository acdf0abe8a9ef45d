package deploy

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnstile/internal/redisconn"
	"turnstile/test/redistest"
)

// safe is the oldest patch of each version of Redis that fixes the known holes that run code
// (CVE-2025-49844).
var safe = map[string]int{"7.2": 11, "7.4": 6, "8.0": 4, "8.2": 2}

// The test runs the container's command as it stands, except for the port and the image's
// entrypoint, which only changes the user. It checks the result as the worker does at its start.
func TestComposeRedis(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	c := readCompose(t, token)
	s := c.Services["redis"]
	wantPinned(t, s.Image)
	version := regexp.MustCompile(`^redis:(\d+\.\d+)\.(\d+)`).FindStringSubmatch(s.Image)
	if version == nil {
		t.Fatalf("image %s", s.Image)
	}
	patch, err := strconv.Atoi(version[2])
	if oldest, known := safe[version[1]]; err != nil || !known || patch < oldest {
		t.Errorf("image %s has known holes, or is none of %v", s.Image, safe)
	}
	if len(s.Ports) > 0 {
		t.Errorf("Redis is published on %v", s.Ports)
	}
	volume, path, _ := strings.Cut(strings.Join(s.Volumes, " "), ":")
	if _, ok := c.Volumes[volume]; !ok || path != "/data" {
		t.Errorf("its data is not in a named volume: %v", s.Volumes)
	}
	for _, word := range s.Command {
		if strings.Contains(word, token["REDIS_PASSWORD"]) {
			t.Errorf("the password is an argument, which every process may read: %q", word)
		}
	}

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-entrypoint.sh"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	run := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, append(environ(s), "PATH="+dir+":"+os.Getenv("PATH"))
		return cmd
	}
	cmd := run(append(s.Command, "--port", port, "--bind", "127.0.0.1")...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	test := append([]string{}, s.Healthcheck.Test[1:]...)
	if s.Healthcheck.Test[0] != "CMD" || test[0] != "redis-cli" {
		t.Fatalf("health check %q", s.Healthcheck.Test)
	}
	check := func(environ ...string) error {
		c := run(append([]string{test[0], "-p", port}, test[1:]...)...)
		c.Env = append(c.Env, environ...)
		return c.Run()
	}
	for healthy := false; !healthy; {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v\n%s", err, &output)
		case <-time.After(20 * time.Millisecond):
			healthy = check() == nil
		}
	}
	if err := check("REDISCLI_AUTH="); err == nil {
		t.Error("the health check succeeds without the password")
	}

	of := func(service string) string {
		u, err := url.Parse(c.Services[service].Environment["REDIS_URL"])
		if err != nil {
			t.Fatal(err)
		}
		u.Host = addr
		return u.String()
	}
	for _, service := range []string{"worker", "asynqmon"} {
		client, err := redisconn.Open(of(service))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		warnings, err := redisconn.Check(t.Context(), client)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s would say of it: %q, %v", service, warnings, err)
		}
		if got := client.ConfigGet(t.Context(), "appendonly").Val()["appendonly"]; got != "yes" {
			t.Errorf("appendonly is %q", got)
		}
	}
	stranger, err := redisconn.Open("redis://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if err := stranger.Ping(context.WithoutCancel(t.Context())).Err(); err == nil || !strings.Contains(redisconn.Explain(err), "wants a password") {
		t.Errorf("without the password: %v", err)
	}
	// PID 1 of the container receives SIGTERM.
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || !strings.Contains(output.String(), "bye bye") {
		t.Errorf("after SIGTERM: %v\n%s", err, &output)
	}
}
