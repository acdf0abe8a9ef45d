package lockguard_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/lockguard"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// contend has many goroutines of two guards count under one lock.
func contend(t *testing.T, client redis.UniversalClient, rounds int) {
	t.Helper()
	guards := []*lockguard.Guard{newGuard(t, client), newGuard(t, client)}
	const goroutines = 16
	var inside atomic.Int32
	var counter int // only the lock guards it
	var lastFence int64
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			for range rounds {
				lock, err := guards[i%2].Acquire(t.Context(), "n")
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d holders at once", n)
				}
				counter++
				if lock.Fence() <= lastFence {
					t.Errorf("fence %d after %d", lock.Fence(), lastFence)
				}
				lastFence = lock.Fence()
				inside.Add(-1)
				if err := lock.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if counter != goroutines*rounds {
		t.Errorf("%d rounds, want %d", counter, goroutines*rounds)
	}
	mustBeFree(t, guards[0], "n")
	k := rediskey.ForLock("n")
	if n, err := client.Exists(t.Context(), k.Waiters(), k.Waiting()).Result(); err != nil || n > 0 {
		t.Errorf("%d keys of the line are left (%v)", n, err)
	}
}

func TestExclusiveUnderContention(t *testing.T) {
	t.Parallel()
	contend(t, redistest.New(t), 25)
}

func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	guards := []*lockguard.Guard{newGuard(t, client), newGuard(t, client), newGuard(t, client)}
	lock := acquire(t, guards[0], "n")
	const waiters = 12
	var line []<-chan outcome
	for i := range waiters {
		line = append(line, acquireSoon(t.Context(), t, guards[i%len(guards)], "n", i+1))
	}
	for i, outcomes := range line {
		release(t, lock)
		next := got(t, outcomes, soon)
		if next.Fence() <= lock.Fence() {
			t.Errorf("waiter %d: fence %d after %d", i, next.Fence(), lock.Fence())
		}
		if h := holder(t, guards[0], "n"); h.Waiting != waiters-1-i || h.Fence != next.Fence() {
			t.Errorf("waiter %d: %+v", i, h)
		}
		if _, err := guards[i%len(guards)].TryAcquire(t.Context(), "n"); !errors.Is(err, lockguard.ErrHeld) {
			t.Errorf("TryAcquire while others wait: %v, want ErrHeld", err)
		}
		lock = next
	}
	release(t, lock)
	mustBeFree(t, guards[0], "n")
}

func TestTryAcquireTellsWhoHolds(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	a := newGuard(t, client, lockguard.Config{Owner: "worker one"})
	b := newGuard(t, client)
	mustBeFree(t, a, "n")
	before := time.Now().Add(-time.Minute) // more than the clocks differ
	lock := acquire(t, a, "n")
	h := holder(t, b, "n")
	if h.Owner != "worker one" || h.Fence != lock.Fence() ||
		h.Since.Before(before) || h.Left <= 0 || h.Left > 15*time.Second {
		t.Errorf("holder %+v", h)
	}
	_, err := b.TryAcquire(t.Context(), "n")
	if !errors.Is(err, lockguard.ErrHeld) || !strings.Contains(err.Error(), `lock "n": lock held by worker one since 20`) {
		t.Errorf("%v, want ErrHeld with the holder", err)
	}
	release(t, lock)
	mustBeFree(t, a, "n")
}

func TestRenewalsChangeNothingElse(t *testing.T) {
	t.Parallel()
	client, faults := withFaults(t)
	lock := acquire(t, newGuard(t, client, lockguard.Config{Owner: "o", TTL: expect.Lease(time.Second)}), "n")
	others := newGuard(t, redistest.New(t))
	before := holder(t, others, "n")
	for range 2 {
		awaitCalls(t, faults, 1, lock)
		h := holder(t, others, "n")
		if h.Left = before.Left; h != before {
			t.Errorf("%+v became %+v", before, h)
		}
	}
	release(t, lock)
	if err := lock.Held(); !errors.Is(err, lockguard.ErrLost) {
		t.Errorf("after release: %v, want ErrLost", err)
	}
}

func TestReleaseTwice(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	g := newGuard(t, client)
	lock := acquire(t, g, "n")
	release(t, lock)
	other := acquire(t, g, "n")
	release(t, lock)
	if h := holder(t, g, "n"); h.Fence != other.Fence() {
		t.Errorf("the second release freed another's hold: %+v", h)
	}
	release(t, other)
}

func TestReleaseByACancelledCaller(t *testing.T) {
	t.Parallel()
	g := newGuard(t, redistest.New(t))
	ctx, cancel := context.WithCancel(t.Context())
	lock, err := g.Acquire(ctx, "n")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := lock.Held(); err != nil {
		t.Errorf("still held until released: %v", err)
	}
	if err := lock.Release(ctx); err != nil {
		t.Error(err)
	}
	mustBeFree(t, g, "n")
}

func TestFenceRises(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	g := newGuard(t, client)
	k := rediskey.ForLock("n")
	var last int64
	next := func(what string) *lockguard.Lock {
		t.Helper()
		lock := acquire(t, g, "n")
		if lock.Fence() <= last {
			t.Errorf("%s: fence %d after %d", what, lock.Fence(), last)
		}
		last = lock.Fence()
		return lock
	}
	for range 100 {
		release(t, next("in a loop"))
	}
	last = acquireAndDie(t, secondClient(t), 100*time.Millisecond, "n").Fence() // the next holder waits until it expires
	release(t, next("after an expiry"))
	if ttl := client.PTTL(t.Context(), k.Run()).Val(); ttl < 59*time.Minute {
		t.Errorf("the record lives %v, want an hour", ttl)
	}
	client.Del(t.Context(), k.Run())
	release(t, next("after the record is gone"))
	// The clock was set back: the stored token is ahead of it.
	stored := int64(8_000_000_000_000_000)
	client.Set(t.Context(), k.Run(), "8000000000000000 8000000000000000 running t o", 0)
	release(t, next("with the clock behind"))
	release(t, next("with the clock behind, again"))
	if last != stored+2 {
		t.Errorf("fence %d, want %d", last, stored+2)
	}
}

func TestRenewalOutlivesTheTTL(t *testing.T) {
	t.Parallel()
	client, faults := withFaults(t)
	ctx, cancel := context.WithCancel(t.Context())
	lock, err := newGuard(t, client, ofTTL(expect.Lease(time.Second))).Acquire(ctx, "n")
	if err != nil {
		t.Fatal(err)
	}
	cancel() // does not stop the renewal
	others := newGuard(t, redistest.New(t))
	for range 7 { // more than two TTLs
		awaitCalls(t, faults, 1, lock)
		if h := holder(t, others, "n"); h.Fence != lock.Fence() {
			t.Fatalf("%+v, want fence %d", h, lock.Fence())
		}
	}
	release(t, lock)
}

// A timeout of Acquire's context bounds the wait. It ends neither the lock nor its context.
func TestTimeoutOfAcquireIsHarmless(t *testing.T) {
	t.Parallel()
	g := newGuard(t, redistest.New(t))
	for _, take := range []func(context.Context, string) (*lockguard.Lock, error){g.Acquire, g.TryAcquire} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		lock, err := take(ctx, "n")
		if err != nil {
			t.Fatal(err)
		}
		work := lock.Context(t.Context())
		if _, limited := work.Deadline(); limited {
			t.Error("the limit on the wait limits the work")
		}
		cancel()
		if err := errors.Join(work.Err(), lock.Held()); err != nil {
			t.Errorf("the end of the wait's context ended the lock: %v", err)
		}
		release(t, lock)
	}
}

func TestContextOfALock(t *testing.T) {
	t.Parallel()
	type key struct{}
	lock := acquire(t, newGuard(t, redistest.New(t)), "n")
	parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
	one, other := lock.Context(parent), lock.Context(t.Context())
	if one.Value(key{}) != "value" {
		t.Error("the parent's value is missing")
	}
	ended := errors.New("the caller has ended")
	cancel(ended)
	if err := context.Cause(one); !errors.Is(err, ended) {
		t.Errorf("cause %v, want the parent's", err)
	}
	if err := errors.Join(other.Err(), lock.Held()); err != nil {
		t.Errorf("one context ended the lock: %v", err)
	}
	release(t, lock)
	<-other.Done()
	for _, ctx := range []context.Context{other, lock.Context(t.Context())} {
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) || errors.Is(cause, lockguard.ErrLost) {
			t.Errorf("cause %v, want context.Canceled", cause)
		}
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	for _, ttl := range []time.Duration{-time.Second, 49 * time.Millisecond} {
		if _, err := lockguard.New(client, ofTTL(ttl)); err == nil {
			t.Errorf("a TTL of %v was taken", ttl)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("two configs were taken")
			}
		}()
		_, _ = lockguard.New(client, lockguard.Config{}, lockguard.Config{})
	}()
	g := newGuard(t, client)
	for _, name := range []string{"", "{a}", "}", "session:a", strings.Repeat("n", 513)} {
		if _, err := g.Acquire(t.Context(), name); !errors.Is(err, lockguard.ErrInvalid) {
			t.Errorf("Acquire %.20q: %v, want ErrInvalid", name, err)
		}
		if _, err := g.TryAcquire(t.Context(), name); !errors.Is(err, lockguard.ErrInvalid) {
			t.Errorf("TryAcquire %.20q: %v, want ErrInvalid", name, err)
		}
		if _, err := g.Holder(t.Context(), name); !errors.Is(err, lockguard.ErrInvalid) {
			t.Errorf("Holder %.20q: %v, want ErrInvalid", name, err)
		}
	}
	if n, err := client.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("%d keys were written (%v)", n, err)
	}
}
