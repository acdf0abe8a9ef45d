package lockguard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/pkg/lockguard"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// Every script is carried out twice, and the caller gets the second result.
func TestScriptsRunTwice(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	faults := &redistest.Faults{}
	client.AddHook(faults)
	g := newGuard(t, client, lockguard.Config{TTL: time.Hour, Owner: "o"})
	faults.RunTwice(redistest.Named("evalsha", "eval"), -1)

	lock := acquire(t, g, "n")
	if h := holder(t, g, "n"); h.Fence != lock.Fence() {
		t.Errorf("after acquire: %+v, want fence %d", h, lock.Fence())
	}
	renewed := acquire(t, newGuard(t, client, lockguard.Config{TTL: expect.Lease(time.Second), Owner: "o"}), "renewed")
	awaitCalls(t, faults, 1, renewed)
	if h := holder(t, g, "renewed"); h.Fence != renewed.Fence() || h.Owner != "o" {
		t.Errorf("after a renewal: %+v", h)
	}
	release(t, renewed)
	if _, err := g.TryAcquire(t.Context(), "n"); !errors.Is(err, lockguard.ErrHeld) {
		t.Errorf("%v, want ErrHeld", err)
	}
	// The line, and three handovers.
	var line []<-chan outcome
	for i := range 3 {
		line = append(line, acquireSoon(t.Context(), t, g, "n", i+1))
	}
	ctx, cancel := context.WithCancel(t.Context())
	leaving := acquireSoon(ctx, t, g, "n", 4)
	cancel()
	failed(t, leaving, context.Canceled)
	awaitWaiting(t, g, "n", 3)
	for i, outcomes := range line {
		release(t, lock)
		next := got(t, outcomes, soon)
		if h := holder(t, g, "n"); h.Fence != next.Fence() || next.Fence() <= lock.Fence() || h.Waiting != 2-i {
			t.Errorf("handover %d: %+v, want fence %d after %d", i, h, next.Fence(), lock.Fence())
		}
		lock = next
	}
	release(t, lock)
	mustBeFree(t, g, "n")
}

func TestLostReplies(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	faults := &redistest.Faults{}
	client.AddHook(faults)
	g := newGuard(t, client, ofTTL(time.Hour))
	release(t, acquire(t, g, "warm"))

	// The lock was acquired, but the reply was lost: it is released.
	faults.LoseReply(redistest.Named("evalsha", "eval"), 1)
	if _, err := g.TryAcquire(t.Context(), "n"); !errors.Is(err, redistest.ErrLostReply) {
		t.Fatalf("%v, want the network's error", err)
	}
	lock := acquire(t, g, "n") // soon, not after an hour

	// The lock was released, but the reply was lost: a second call returns the same.
	faults.LoseReply(redistest.Named("evalsha", "eval"), 1)
	if err := lock.Release(t.Context()); !errors.Is(err, redistest.ErrLostReply) {
		t.Fatalf("%v, want the network's error", err)
	}
	other := acquire(t, g, "n")
	release(t, lock)
	if h := holder(t, g, "n"); h.Fence != other.Fence() {
		t.Errorf("%+v, want fence %d", h, other.Fence())
	}

	// The lock was handed over, but the reply to the releasing holder was lost.
	waiting := acquireSoon(t.Context(), t, newGuard(t, secondClient(t)), "n", 1)
	faults.LoseReply(redistest.Named("evalsha", "eval"), 1)
	if err := other.Release(t.Context()); !errors.Is(err, redistest.ErrLostReply) {
		t.Fatalf("%v, want the network's error", err)
	}
	next := got(t, waiting, soon)
	release(t, other)
	if h := holder(t, g, "n"); h.Fence != next.Fence() {
		t.Errorf("%+v, want fence %d", h, next.Fence())
	}

	// After a lost reply the lock is renewed again.
	release(t, next)
	lock = acquire(t, newGuard(t, client, ofTTL(expect.Lease(time.Second))), "n")
	faults.LoseReply(redistest.Named("evalsha", "eval"), 1)
	awaitCalls(t, faults, 2, lock)
	release(t, lock)
}

func TestRenewalsThatFail(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	faults := &redistest.Faults{}
	client.AddHook(faults)
	ttl := expect.Lease(time.Second)
	g := newGuard(t, client, ofTTL(ttl))
	lock := acquire(t, g, "n")
	broken := errors.New("broken wire")
	faults.FailBefore(redistest.Named("evalsha"), 5, broken) // for a while
	awaitCalls(t, faults, 7, lock)
	faults.FailBefore(redistest.Named("evalsha"), -1, broken) // for good
	awaitLost(t, lock, 2*ttl)
	if cause := context.Cause(lock.Context(t.Context())); !errors.Is(cause, broken) {
		t.Errorf("cause %v does not tell why", cause)
	}
}

func TestFullRedis(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t, "--maxmemory-policy", "noeviction")
	client := server.Client()
	g := newGuard(t, client, ofTTL(time.Hour))
	lock := acquire(t, g, "n")
	waiting := acquireSoon(t.Context(), t, g, "n", 1)
	faults := &redistest.Faults{}
	client.AddHook(faults)
	renewed := acquire(t, newGuard(t, client, ofTTL(expect.Lease(time.Second))), "renewed")
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	full := func(err error) {
		t.Helper()
		if !redis.HasErrorPrefix(err, "OOM") {
			t.Errorf("%v, want OOM", err)
		}
	}
	_, err := g.TryAcquire(t.Context(), "other")
	full(err)
	_, err = g.Acquire(t.Context(), "other")
	full(err)
	_, err = g.Acquire(t.Context(), "n") // it cannot even wait
	full(err)
	awaitCalls(t, faults, 4, renewed) // for longer than its TTL
	release(t, renewed)
	release(t, lock)
	lock = got(t, waiting, soon)
	if h := holder(t, g, "n"); h.Fence != lock.Fence() {
		t.Errorf("%+v, want fence %d", h, lock.Fence())
	}
	release(t, lock)
	mustBeFree(t, g, "n")
	if n := client.Exists(t.Context(), allKeys("other")...).Val(); n != 0 {
		t.Errorf("%d keys of a refused lock", n)
	}
}

// snapshot returns all keys of a lock with their contents.
func snapshot(t *testing.T, client redis.UniversalClient, name string) string {
	t.Helper()
	var text strings.Builder
	for _, key := range allKeys(name) {
		fmt.Fprintf(&text, "%s %q\n", key, client.Dump(t.Context(), key).Val())
	}
	return text.String()
}

// If one key of a lock has a wrong type, every call either fails or does all of its work, never a
// part of it.
func TestWrongTypes(t *testing.T) {
	t.Parallel()
	calls := map[string]func(ctx context.Context, g *lockguard.Guard, lock *lockguard.Lock) error{
		"TryAcquire": func(ctx context.Context, g *lockguard.Guard, _ *lockguard.Lock) error {
			_, err := g.TryAcquire(ctx, "n")
			return err
		},
		"Acquire": func(ctx context.Context, g *lockguard.Guard, _ *lockguard.Lock) error {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond) // it may wait
			defer cancel()
			_, err := g.Acquire(ctx, "n")
			return err
		},
		"Release": func(ctx context.Context, _ *lockguard.Guard, lock *lockguard.Lock) error { return lock.Release(ctx) },
		"Holder": func(ctx context.Context, g *lockguard.Guard, _ *lockguard.Lock) error {
			_, err := g.Holder(ctx, "n")
			return err
		},
	}
	for i, what := range []string{"sentinel", "run", "waiters", "waiting", "released"} {
		for call, do := range calls {
			for _, state := range []string{"free", "held", "held and waited for"} {
				t.Run(fmt.Sprintf("%s/%s/%s", what, call, state), func(t *testing.T) {
					t.Parallel()
					client := redistest.New(t)
					g := newGuard(t, client, ofTTL(time.Hour))
					other := newGuard(t, client, ofTTL(time.Hour))
					release(t, releaseAndGet(t, other)) // its subscription is ready
					release(t, releaseAndGet(t, g))
					lock := acquire(t, other, "n")
					switch state {
					case "free":
						release(t, lock)
					case "held and waited for":
						ctx, cancel := context.WithCancel(t.Context())
						waiting := acquireSoon(ctx, t, other, "n", 1)
						defer func() {
							cancel()
							<-waiting
						}()
					}
					key := allKeys("n")[i]
					client.Del(t.Context(), key)
					if err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: key, ID: "1-1", Values: []string{"a", "b"}}).Err(); err != nil {
						t.Fatal(err)
					}
					before := snapshot(t, client, "n")
					if err := do(t.Context(), g, lock); redis.HasErrorPrefix(err, "WRONGTYPE") {
						if after := snapshot(t, client, "n"); after != before {
							t.Errorf("half-written:\n%s\nbecame\n%s", before, after)
						}
					} else if after := client.Type(t.Context(), key).Val(); what != "released" && after != "stream" {
						t.Errorf("%v, and the wrong key became a %s", err, after)
					}
				})
			}
		}
	}
}

// releaseAndGet has the guard wait once for a lock of another name.
func releaseAndGet(t *testing.T, g *lockguard.Guard) *lockguard.Lock {
	t.Helper()
	name := "warm " + t.Name()
	lock := acquire(t, g, strings.ReplaceAll(name, "/", "."))
	return got(t, releaseTo(t, g, lock), soon)
}
