package lockguard_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/lockguard"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

func TestCancelledWaiterLeavesTheLine(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	g := newGuard(t, client)
	lock := acquire(t, g, "n")
	ctx, cancel := context.WithCancel(t.Context())
	first := acquireSoon(ctx, t, g, "n", 1)
	second := acquireSoon(t.Context(), t, g, "n", 2)
	cancel()
	failed(t, first, context.Canceled)
	awaitWaiting(t, g, "n", 1)
	release(t, lock)
	release(t, got(t, second, soon))
	mustBeFree(t, g, "n")
}

// A grant and a cancellation cross each other, in every order that the scheduler finds. The next
// waiter must not wait for a TTL.
func TestCancelledWaiterPassesOnItsGrant(t *testing.T) {
	t.Parallel()
	g := newGuard(t, redistest.New(t), ofTTL(time.Hour))
	for range 60 {
		lock := acquire(t, g, "n")
		ctx, cancel := context.WithCancel(t.Context())
		first := acquireSoon(ctx, t, g, "n", 1)
		second := acquireSoon(t.Context(), t, g, "n", 2)
		var both sync.WaitGroup
		both.Go(cancel)
		both.Go(func() { release(t, lock) })
		if o := <-first; o.err == nil {
			release(t, o.lock)
		} else if !errors.Is(o.err, context.Canceled) {
			t.Fatal(o.err)
		}
		release(t, got(t, second, soon))
		both.Wait()
	}
}

func TestCancelledWaiterReturnsAtOnceWhenRedisHangs(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	g := newGuard(t, server.Client(), ofTTL(time.Minute))
	lock := acquire(t, g, "n")
	ctx, cancel := context.WithCancel(t.Context())
	waiting := acquireSoon(ctx, t, g, "n", 1)
	server.Pause()
	defer server.Resume()
	first := make(chan outcome, 1) // another guard: not subscribed yet
	go func() {
		lock, err := newGuard(t, server.Client()).Acquire(ctx, "other")
		first <- outcome{lock, err}
	}()
	cancel()
	for _, outcomes := range []<-chan outcome{waiting, first} {
		select {
		case o := <-outcomes:
			if !errors.Is(o.err, context.Canceled) {
				t.Errorf("%v, want context.Canceled", o.err)
			}
		case <-time.After(time.Second): // the client's own timeout is 3 s
			t.Error("a cancelled Acquire waits for Redis")
		}
	}
	server.Resume()
	awaitWaiting(t, g, "n", 0)
	release(t, lock)
}

func TestCancelledBeforeItsScriptWasAnswered(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	faults := &redistest.Faults{}
	client.AddHook(faults)
	g := newGuard(t, client, ofTTL(time.Hour))
	lock := acquire(t, g, "n")
	release(t, got(t, releaseTo(t, g, lock), soon)) // the subscription is ready now
	gate := faults.GateReply(redistest.Named("evalsha"))
	ctx, cancel := context.WithCancel(t.Context())
	outcomes := make(chan outcome, 1)
	go func() {
		lock, err := g.Acquire(ctx, "n")
		outcomes <- outcome{lock, err}
	}()
	<-gate.Arrived() // Redis has given it the lock, and it does not know that yet
	cancel()
	failed(t, outcomes, context.Canceled)
	faults.Clear()
	gate.Release()
	other := acquire(t, g, "n") // at once, not after an hour
	release(t, other)
}

// releaseTo starts a waiter and releases the lock to it.
func releaseTo(t *testing.T, g *lockguard.Guard, lock *lockguard.Lock) <-chan outcome {
	t.Helper()
	waiting := acquireSoon(t.Context(), t, g, lock.Name(), 1)
	release(t, lock)
	return waiting
}

func TestPassedDeadlineAndCancelledContext(t *testing.T) {
	t.Parallel()
	g := newGuard(t, redistest.New(t))
	lock := acquire(t, g, "n")
	defer release(t, lock)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := g.Acquire(ctx, "n"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want DeadlineExceeded", err)
	}
	awaitWaiting(t, g, "n", 0)
	if _, err := g.Acquire(ctx, "other"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want DeadlineExceeded", err)
	}
}

// A waiter that may not subscribe gets the error, and leaves no place in line.
func TestRefusedSubscription(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	g := newGuard(t, server.Client())
	if err := server.Client().Do(t.Context(), "ACL", "SETUSER", "deaf", "on", "nopass", "~*", "+@all", "resetchannels").Err(); err != nil {
		t.Fatal(err)
	}
	deaf := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "deaf", Password: "any"})
	t.Cleanup(func() { _ = deaf.Close() })
	lock := acquire(t, g, "n")
	if _, err := newGuard(t, deaf).Acquire(t.Context(), "n"); !redis.HasErrorPrefix(err, "NOPERM") {
		t.Errorf("%v, want NOPERM", err)
	}
	awaitWaiting(t, g, "n", 0)
	release(t, lock)
}

// Closing the client ends the waits.
func TestClosedClientEndsWaiting(t *testing.T) {
	t.Parallel()
	client := secondClient(t)
	lock := acquire(t, newGuard(t, redistest.New(t)), "n")
	waiting := acquireSoon(t.Context(), t, newGuard(t, client), "n", 1)
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	failed(t, waiting, redis.ErrClosed)
	release(t, lock)
}

func TestDeadWaiterIsPassedOver(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	g := newGuard(t, redistest.New(t), ofTTL(time.Minute))
	lock := acquire(t, g, "n")
	c := startChild(t, redistest.URL(t), "n", time.Minute)
	awaitWaiting(t, g, "n", 1)
	waiting := acquireSoon(t.Context(), t, g, "n", 2)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	awaitListeners(t, redistest.New(t), 1)
	release(t, lock)
	release(t, got(t, waiting, soon))
}

// awaitListeners returns when only n of the waiters in this database's line still listen.
func awaitListeners(t *testing.T, client redis.UniversalClient, n int) {
	t.Helper()
	registrations, err := client.HVals(t.Context(), rediskey.ForLock("n").Waiting()).Result()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(soon)
	for {
		listening := 0
		for _, r := range registrations {
			for _, word := range strings.Fields(r) {
				counts, err := client.PubSubNumSub(t.Context(), word).Result()
				if err != nil {
					t.Fatal(err)
				}
				listening += int(counts[word])
			}
		}
		if listening == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d listen, want %d", listening, n)
		}
	}
}

// A waiter's process is stopped while the waiter gets the lock, and continues after that lock has
// expired: the waiter must ignore the old grant.
func TestStoppedWaiterDoesNotTrustAnOldGrant(t *testing.T) {
	t.Parallel()
	redistest.Real(t)
	ttl := expect.Lease(time.Second)
	g := newGuard(t, redistest.New(t), ofTTL(ttl))
	lock := acquire(t, g, "n")
	c := startChild(t, redistest.URL(t), "n", ttl)
	awaitWaiting(t, g, "n", 1)
	c.stop(t)
	release(t, lock) // to the child: its connection still listens
	if h := holder(t, g, "n"); h.Owner != "child" {
		t.Fatalf("%+v, want the child", h)
	}
	lock = acquire(t, g, "n") // when the child's lock has expired
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	awaitWaiting(t, g, "n", 1) // in line again, without the lock
	release(t, lock)
	c.says(t, "held")
	if h := holder(t, g, "n"); h.Owner != "child" || h.Fence <= lock.Fence() {
		t.Errorf("%+v, want the child with a fence over %d", h, lock.Fence())
	}
}

func TestBrokenSubscription(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	client := server.Client()
	g := newGuard(t, client, ofTTL(time.Hour))
	lock := acquire(t, g, "n")
	first := acquireSoon(t.Context(), t, g, "n", 1)
	second := acquireSoon(t.Context(), t, g, "n", 2)
	for _, outcomes := range []<-chan outcome{first, second} {
		if err := client.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err(); err != nil {
			t.Fatal(err)
		}
		release(t, lock) // maybe before the subscription is back
		lock = got(t, outcomes, soon)
	}
	release(t, lock)
	mustBeFree(t, g, "n")
}

func TestServerRestartsWhileOneWaits(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	g := newGuard(t, server.Client(), ofTTL(3*time.Second))
	lock := acquire(t, g, "n")
	waiting := acquireSoon(t.Context(), t, g, "n", 1)
	server.Kill()
	server.Start() // empty: no lock is held
	next := got(t, waiting, 2*soon)
	awaitLost(t, lock, soon)
	if next.Fence() <= lock.Fence() {
		t.Errorf("fence %d after %d, though Redis forgot", next.Fence(), lock.Fence())
	}
	release(t, next)
}

func TestWaiterKeepsItsPlaceForLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	ttl := expect.Lease(600 * time.Millisecond)
	long := newGuard(t, client, ofTTL(time.Hour))
	short := newGuard(t, client, ofTTL(ttl))
	lock := acquire(t, long, "n")
	first := acquireSoon(t.Context(), t, short, "n", 1)
	second := acquireSoon(t.Context(), t, long, "n", 2)
	registered := client.HVals(t.Context(), rediskey.ForLock("n").Waiting()).Val()
	deadline := time.Now().Add(3 * ttl)
	for time.Now().Before(deadline) {
		if h := holder(t, long, "n"); h.Waiting != 2 {
			t.Fatalf("%d wait, want 2", h.Waiting)
		}
	}
	if again := client.HVals(t.Context(), rediskey.ForLock("n").Waiting()).Val(); strings.Join(again, " ") == strings.Join(registered, " ") {
		t.Errorf("not renewed: %v", again)
	}
	release(t, lock)
	lock = got(t, first, soon)
	if h := holder(t, long, "n"); h.Left < ttl/4 {
		t.Errorf("only %v of its TTL are left", h.Left)
	}
	release(t, lock)
	release(t, got(t, second, soon))
}
