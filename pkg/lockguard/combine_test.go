package lockguard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"turnstile/pkg/lockguard"
	"turnstile/test/redistest"
)

// Commands of many goroutines share round trips, and each goroutine gets its own result.
func TestManyLocksAtOnce(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	faults := &redistest.Faults{}
	g := newGuard(t, client, ofTTL(time.Hour))
	taken := acquire(t, g, "7")
	client.AddHook(faults)
	gate := faults.Gate(redistest.Named("evalsha"))

	const goroutines, onTheirWay = 40, 4
	var wg sync.WaitGroup
	locks := make([]*lockguard.Lock, goroutines)
	for i := range goroutines {
		wg.Go(func() {
			lock, err := g.TryAcquire(t.Context(), fmt.Sprint(i))
			if i == 7 {
				if !errors.Is(err, lockguard.ErrHeld) {
					t.Errorf("7: %v, want ErrHeld", err)
				}
			} else if err != nil {
				t.Errorf("%d: %v", i, err)
			}
			locks[i] = lock
		})
	}
	for range onTheirWay {
		<-gate.Arrived()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error, 1)
	go func() {
		_, err := g.TryAcquire(ctx, "cancelled")
		cancelled <- err
	}()
	cancel()
	select {
	case err := <-cancelled:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want context.Canceled", err)
		}
	case <-time.After(soon):
		t.Error("a cancelled TryAcquire waits for others")
	}
	gate.Release()
	wg.Wait()
	faults.Clear()
	for i, lock := range locks {
		if i == 7 {
			lock = taken
		}
		if h := holder(t, g, fmt.Sprint(i)); h.Fence != lock.Fence() {
			t.Errorf("%d: %+v, want fence %d", i, h, lock.Fence())
		}
		wg.Go(func() { release(t, lock) })
	}
	wg.Wait()
	for i := range goroutines {
		mustBeFree(t, g, fmt.Sprint(i))
	}
	mustBeFree(t, g, "cancelled")
}

// If a whole pipeline fails, each of its callers gets the error, and no lock stays taken.
func TestCombinedRepliesAreLost(t *testing.T) {
	t.Parallel()
	client := redistest.New(t)
	faults := &redistest.Faults{}
	client.AddHook(faults)
	g := newGuard(t, client, ofTTL(time.Hour))
	release(t, acquire(t, g, "warm"))
	gate := faults.Gate(redistest.Named("evalsha"))
	const goroutines = 24
	results := make(chan error, goroutines)
	for i := range goroutines {
		go func() {
			_, err := g.TryAcquire(t.Context(), fmt.Sprint(i))
			results <- err
		}()
	}
	for range 4 {
		<-gate.Arrived()
	}
	faults.LoseReply(redistest.Named("evalsha", "eval"), goroutines)
	gate.Release()
	lost := 0
	for range goroutines {
		switch err := <-results; {
		case errors.Is(err, redistest.ErrLostReply):
			lost++
		case err != nil:
			t.Errorf("%v, want a lock or the network's error", err)
		}
	}
	faults.Clear()
	if lost == 0 {
		t.Error("no answer was lost")
	}
	for deadline := time.Now().Add(soon); ; {
		free := 0
		for i := range goroutines {
			if holder(t, g, fmt.Sprint(i)) == (lockguard.Holder{}) {
				free++
			}
		}
		if free == lost {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d answers were lost, and %d locks given back", lost, free)
		}
	}
}
