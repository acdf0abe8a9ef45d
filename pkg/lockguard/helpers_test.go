package lockguard_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/lockguard"
	"turnstile/test/redistest"
)

// soon is below the TTL of tests in which an event must come without waiting for a TTL.
const soon = 25 * time.Second

func newGuard(t testing.TB, client redis.UniversalClient, config ...lockguard.Config) *lockguard.Guard {
	t.Helper()
	g, err := lockguard.New(client, config...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ofTTL is a config of which only the TTL matters.
func ofTTL(ttl time.Duration) lockguard.Config { return lockguard.Config{TTL: ttl} }

// acquireAndDie takes a lock as a process that then dies: the lock is not renewed. Only this call uses
// client.
func acquireAndDie(t testing.TB, client redis.UniversalClient, ttl time.Duration, name string) *lockguard.Lock {
	t.Helper()
	lock := acquire(t, newGuard(t, client, ofTTL(ttl)), name)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	return lock
}

// awaitCalls returns when n more scripts were called, while the lock stays held.
func awaitCalls(t testing.TB, faults *redistest.Faults, n int, lock *lockguard.Lock) {
	t.Helper()
	for n += faults.CountNamed("evalsha"); faults.CountNamed("evalsha") < n; runtime.Gosched() {
		if err := lock.Held(); err != nil {
			t.Fatal(err)
		}
	}
}

// withFaults returns another client of the test's database, and its faults.
func withFaults(t *testing.T) (redis.UniversalClient, *redistest.Faults) {
	t.Helper()
	client, faults := secondClient(t), &redistest.Faults{}
	client.AddHook(faults)
	return client, faults
}

// secondClient is another client of the test's database.
func secondClient(t *testing.T) redis.UniversalClient {
	t.Helper()
	options, err := redis.ParseURL(redistest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func acquire(t testing.TB, g *lockguard.Guard, name string) *lockguard.Lock {
	t.Helper()
	lock, err := g.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func release(t testing.TB, lock *lockguard.Lock) {
	t.Helper()
	if err := lock.Release(context.Background()); err != nil {
		t.Errorf("release: %v", err)
	}
}

// outcome is the result of an Acquire in the background.
type outcome struct {
	lock *lockguard.Lock
	err  error
}

// acquireSoon starts an Acquire and returns when it is the nth in line.
func acquireSoon(ctx context.Context, t testing.TB, g *lockguard.Guard, name string, nth int) <-chan outcome {
	t.Helper()
	outcomes := make(chan outcome, 1)
	go func() {
		lock, err := g.Acquire(ctx, name)
		outcomes <- outcome{lock, err}
	}()
	awaitWaiting(t, g, name, nth)
	return outcomes
}

// awaitWaiting returns when n waiters are in line.
func awaitWaiting(t testing.TB, g *lockguard.Guard, name string, n int) {
	t.Helper()
	deadline := time.Now().Add(soon)
	for {
		h, err := g.Holder(t.Context(), name)
		if err == nil && h.Waiting == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d wait (%v), want %d", h.Waiting, err, n)
		}
	}
}

// got waits for an Acquire that must succeed.
func got(t testing.TB, outcomes <-chan outcome, within time.Duration) *lockguard.Lock {
	t.Helper()
	select {
	case o := <-outcomes:
		if o.err != nil {
			t.Fatalf("acquire: %v", o.err)
		}
		return o.lock
	case <-time.After(within):
		t.Fatalf("no lock within %v", within)
	}
	return nil
}

// failed waits for an Acquire that must fail with target.
func failed(t testing.TB, outcomes <-chan outcome, target error) {
	t.Helper()
	select {
	case o := <-outcomes:
		if !errors.Is(o.err, target) {
			t.Fatalf("acquire: %v, want %v", o.err, target)
		}
	case <-time.After(soon):
		t.Fatal("acquire does not return")
	}
}

// awaitLost waits for the end of a lock's context, which must be a loss.
func awaitLost(t testing.TB, lock *lockguard.Lock, within time.Duration) {
	t.Helper()
	ctx := lock.Context(t.Context())
	select {
	case <-ctx.Done():
	case <-time.After(within):
		t.Fatalf("the context lives after %v", within)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, lockguard.ErrLost) {
		t.Errorf("cause %v, want ErrLost", cause)
	}
	if err := lock.Held(); !errors.Is(err, lockguard.ErrLost) {
		t.Errorf("Held: %v, want ErrLost", err)
	}
}

func holder(t testing.TB, g *lockguard.Guard, name string) lockguard.Holder {
	t.Helper()
	h, err := g.Holder(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func mustBeFree(t testing.TB, g *lockguard.Guard, name string) {
	t.Helper()
	if h := holder(t, g, name); h != (lockguard.Holder{}) {
		t.Errorf("holder %+v, want none", h)
	}
}

// allKeys are the keys of a lock.
func allKeys(name string) []string {
	k := rediskey.ForLock(name)
	return []string{k.Sentinel(), k.Run(), k.Waiters(), k.Waiting(), k.Released()}
}
