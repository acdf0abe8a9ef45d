package lockguard_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/lockguard"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestLostWhenTheSentinelIsDeleted(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	ttl := expect.Lease(3 * time.Second)
	g := newGuard(t, client, ofTTL(ttl))
	lock := acquire(t, g, "n")
	client.Del(t.Context(), rediskey.ForLock("n").Sentinel())
	awaitLost(t, lock, ttl*2/3) // the renewal detects it, long before the trust ends
	other := acquire(t, g, "n")
	for range 2 {
		if err := lock.Release(t.Context()); !errors.Is(err, lockguard.ErrLost) {
			t.Errorf("release: %v, want ErrLost", err)
		}
	}
	if h := holder(t, g, "n"); h.Fence != other.Fence() {
		t.Errorf("releasing a lost lock changed the other's: %+v", h)
	}
	release(t, other)
}

func TestLostWhenTheSentinelIsStolen(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	g := newGuard(t, client)
	lock := acquire(t, g, "n")
	k := rediskey.ForLock("n")
	client.Set(t.Context(), k.Sentinel(), "thief", 0)
	awaitLost(t, lock, soon)
	if h := holder(t, g, "n"); h.Owner != "" || h.Left >= 0 {
		t.Errorf("a foreign sentinel is nobody's we know, for ever: %+v", h)
	}
	if err := lock.Release(t.Context()); !errors.Is(err, lockguard.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
	if v := client.Get(t.Context(), k.Sentinel()).Val(); v != "thief" {
		t.Errorf("sentinel %q", v)
	}
}

func TestLostBeforeTheTTLWhenRedisIsPaused(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	ttl := expect.Lease(2 * time.Second)
	g := newGuard(t, server.Client(), ofTTL(ttl))
	acquire(t, g, "warm") // opens a connection and loads the script
	before := time.Now()
	lock := acquire(t, g, "n")
	server.Pause()
	defer server.Resume()
	awaitLost(t, lock, soon)
	// The TTL on the server cannot have started before the script was sent.
	if took := time.Since(before); took >= ttl {
		t.Errorf("learned of the loss after %v, the TTL is %v", took, ttl)
	}
}

func TestHolderDies(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	ttl := expect.Lease(2 * time.Second)
	g := newGuard(t, redistest.New(t), ofTTL(ttl))
	c := startChild(t, redistest.URL(t), "n", ttl)
	c.says(t, "held")
	waiting := acquireSoon(t.Context(), t, g, "n", 1)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	release(t, got(t, waiting, ttl+expect.Lease(time.Second)))
}

func TestHolderIsStoppedPastItsTTL(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	client := redistest.New(t)
	ttl := expect.Lease(time.Second)
	g := newGuard(t, client, ofTTL(ttl))
	c := startChild(t, redistest.URL(t), "n", ttl)
	c.says(t, "held")
	waiting := acquireSoon(t.Context(), t, g, "n", 1)
	c.stop(t)
	lock := got(t, waiting, ttl+expect.Lease(time.Second))
	if _, err := c.stdin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := c.says(t, "lost"); got != "true true true true" {
		t.Errorf("held, context, new context, release see ErrLost: %s", got)
	}
	if h := holder(t, g, "n"); h.Fence != lock.Fence() || h.Owner == "child" {
		t.Errorf("the stopped holder wrote: %+v", h)
	}
	release(t, lock)
}
