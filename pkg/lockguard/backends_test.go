package lockguard_test

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/redis/redisconn"
	"turnstile/pkg/lockguard"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := cluster.Client()
	t.Run("contention", func(t *testing.T) { contend(t, client, 10) })
	t.Run("every slot", func(t *testing.T) {
		g := newGuard(t, client)
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			lock := acquire(t, g, name)
			next := got(t, releaseTo(t, g, lock), soon)
			release(t, next)
			mustBeFree(t, g, name)
		}
	})
	t.Run("holder dies", func(t *testing.T) {
		ttl := expect.Lease(time.Second)
		mortal, err := redisconn.Open(cluster.URL())
		if err != nil {
			t.Fatal(err)
		}
		acquireAndDie(t, mortal, ttl, "n2")
		g := newGuard(t, client)
		release(t, got(t, acquireSoon(t.Context(), t, g, "n2", 1), ttl+soon))
	})
}

func TestEmbeddedServer(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	contend(t, client, 10)

	g := newGuard(t, client, lockguard.Config{TTL: time.Minute, Owner: "o"})
	lock := acquire(t, g, "m")
	if h := holder(t, g, "m"); h.Owner != "o" || h.Fence != lock.Fence() {
		t.Errorf("%+v", h)
	}
	if _, err := g.TryAcquire(t.Context(), "m"); !errors.Is(err, lockguard.ErrHeld) {
		t.Errorf("%v, want ErrHeld", err)
	}
	server.FastForward(2 * time.Minute)
	next := acquire(t, g, "m")
	if next.Fence() <= lock.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lock.Fence())
	}
	if err := lock.Release(t.Context()); !errors.Is(err, lockguard.ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	release(t, next)
}

func TestFailover(t *testing.T) {
	t.Parallel()
	failover := redistest.StartFailover(t)
	g := newGuard(t, failover.Client(), ofTTL(20*time.Second))
	lock := acquire(t, g, "n")
	waiting := acquireSoon(t.Context(), t, g, "n", 1)
	// WAIT is about the writes of its connection, so a write goes first.
	pipe := failover.Client().Pipeline()
	pipe.Set(t.Context(), "mark", "1", 0)
	replicas := pipe.Do(t.Context(), "WAIT", 1, soon.Milliseconds())
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := replicas.Int(); err != nil || n < 1 {
		t.Fatalf("%d replicas have it (%v)", n, err)
	}
	failover.Failover()
	release(t, lock) // the replica knows the holder
	next := got(t, waiting, 2*soon)
	if next.Fence() <= lock.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lock.Fence())
	}
	release(t, next)
	mustBeFree(t, g, "n")
}
