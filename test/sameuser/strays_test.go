//go:build linux

package sameuser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"turnstile"

	"turnstile/internal/redis/redisconn"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A worker that ends the processes of killed guardians does not touch the guardians of other turns,
// not even those that are just starting.
func TestOtherGuardiansAreLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, "desert", "TURNSTILE_CONCURRENCY=4", "TURNSTILE_MAX_ATTEMPTS=1")
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for j := range 15 {
				text, key := "good", fmt.Sprintf("%s-%d", r.key(), i)
				if i == 0 {
					text = "be bad"
				}
				receipt, err := r.client.Session(key).Send(r.ctx, turnstile.Message{Text: text})
				if err != nil {
					t.Error(err)
					return
				}
				end, err := actors.Follow(r.ctx, r.client.Session(key), receipt.ID, ignore)
				if err != nil {
					t.Errorf("the session is stuck: %v", err)
					return
				}
				bad := strings.Contains(end.Why(), "guardian was killed")
				if bad != (i == 0) || !bad && end.Reply != "fine" {
					t.Errorf("%s, number %d, ended as %s (%s): %q", text, j, end.Status, end.Why(), end.Reply)
				}
			}
		})
	}
	wait.Wait()
}

// A process that the worker inherited from its predecessor, a container's entry point for example,
// is not treated as one that an agent left.
func TestEarlierChildrenAreLeftAlone(t *testing.T) {
	t.Parallel()
	entry := filepath.Join(t.TempDir(), "entry")
	if err := os.Chmod(filepath.Dir(filepath.Dir(entry)), 0o755); err != nil { //nolint:gosec // the user goes through it
		t.Fatal(err)
	}
	u := newUser(t)
	script := fmt.Sprintf("#!/bin/sh\n%s role=sidecar %s &\nexec %s\n", agentPath, u.Dir, workerPath)
	if err := os.WriteFile(entry, []byte(script), 0o755); err != nil { //nolint:gosec // the user runs it
		t.Fatal(err)
	}
	r := rigOf(t, u, entry, "flee")
	expect.Soon(t, "the sidecar", func() bool { return r.noted("sidecar") != "" })
	if end := r.says("flee", ignore); end.Reply != "looked" || r.noted("alive") != "" {
		t.Errorf("it ended as %s (%s): %q, with %q alive", end.Status, end.Why(), end.Reply, r.noted("alive"))
	}
	sidecar, _ := strconv.Atoi(r.noted("sidecar"))
	if !alive(sidecar) || stat(sidecar)[1] != strconv.Itoa(r.worker.Process.Pid) {
		t.Errorf("the sidecar %d is %v", sidecar, stat(sidecar))
	}
	_ = syscall.Kill(sidecar, syscall.SIGKILL)
}

// The redis-server of --dev and its watchdog are children of the worker, too.
func TestDevsRedisIsLeftAlone(t *testing.T) {
	t.Parallel()
	redistest.New(t) // skips, or fails in CI, if there is no redis-server
	u := newUser(t)
	worker := u.start(t, workerPath, []string{
		"TURNSTILE_AGENT=exec", fmt.Sprintf("TURNSTILE_AGENT_COMMAND=%s role=flee %s", agentPath, u.Dir),
		"TURNSTILE_HTTP_ADDR=127.0.0.1:0", "TURNSTILE_RETRY_BACKOFF=10ms", "TURNSTILE_LOG_LEVEL=debug",
	}, "--dev")
	said := regexp.MustCompile(`(redis://\S+), a redis-server of its own`)
	var url string
	expect.Soon(t, "the Redis of --dev", func() bool {
		found := said.FindStringSubmatch(worker.Output.String())
		if found != nil {
			url = found[1]
		}
		return found != nil
	})
	rdb, err := redisconn.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(t.Context(), expect.Patience)
	defer cancel()
	r := rig{T: t, user: u, ctx: ctx, client: actors.NewClient(rdb), worker: worker}
	if end := r.says("flee", ignore); end.Reply != "looked" || u.noted("pids") == "" || u.noted("alive") != "" {
		t.Errorf("it ended as %s (%s): %q, with %q alive", end.Status, end.Why(), end.Reply, u.noted("alive"))
	}
	r.goesOn()
}
