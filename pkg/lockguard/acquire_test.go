package lockguard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/testredis"
	"turnstile/pkg/lockguard"
)

// newGuard makes a guard that is closed, and its client checked for leaks of
// the line, at the test's end.
func newGuard(t testing.TB, client redis.UniversalClient, options ...lockguard.Option) *lockguard.Guard {
	t.Helper()
	g, err := lockguard.New(client, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
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

func TestExclusiveUnderContention(t *testing.T) {
	t.Parallel()
	client := testredis.New(t)
	guards := []*lockguard.Guard{newGuard(t, client), newGuard(t, client)}
	const goroutines, rounds = 16, 25
	var inside atomic.Int32
	var counter int // guarded by the lock alone
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
	if _, err := guards[0].Holder(t.Context(), "n"); !errors.Is(err, lockguard.ErrFree) {
		t.Errorf("afterwards: %v, want ErrFree", err)
	}
	keys, err := client.Keys(t.Context(), "*wait*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("left behind: %v (%v)", keys, err)
	}
	_ = fmt.Sprint
	_ = time.Now
}
