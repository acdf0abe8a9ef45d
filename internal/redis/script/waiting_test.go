package script_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"turnstile/internal/redis/script"
	"turnstile/test/redistest"
)

// Calls that may share a command, and others, wait for the same request and are sent in one round
// trip. Each gets its own result, although Redis does not know the scripts.
func TestWaitingCallsShareARoundTrip(t *testing.T) {
	t.Parallel()
	client, shared, own, faults := redistest.New(t), each(t), named(t), &redistest.Faults{}
	client.AddHook(faults)
	b := script.NewBatcher(client, 1)
	gate := faults.Gate(redistest.Named("evalsha"))
	var wg sync.WaitGroup
	run := func(i int) {
		if i%2 == 0 {
			r, err := b.Run(t.Context(), own, []string{fmt.Sprint("key", i)}, i)
			if err != nil || r.Text(0) != fmt.Sprint("key", i) || r.Int(1) != int64(i) {
				t.Errorf("%d: %v, %v", i, r, err)
			}
			return
		}
		call := &script.Call{Script: shared, Shared: []any{""}, Keys: []string{fmt.Sprint("key", i)}, Args: []any{i}}
		b.Do(t.Context(), call)
		if want := fmt.Sprintf("key%d %d", i, i); call.Err != nil || call.Result.Text(0) != want {
			t.Errorf("%v, %v, want %s", call.Result, call.Err, want)
		}
	}
	wg.Go(func() { run(0) })
	<-gate.Arrived()
	const n = 20
	for i := range n {
		wg.Go(func() { run(i) })
	}
	for b.Waiting() < n {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error, 1)
	wg.Go(func() {
		_, err := b.Run(ctx, own, []string{"cancelled"}, 1)
		cancelled <- err
	})
	for b.Waiting() < n+1 {
		runtime.Gosched()
	}
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) || b.Waiting() != n {
		t.Errorf("%v with %d waiting, want context.Canceled with %d", err, b.Waiting(), n)
	}
	faults.ResetCounts()
	gate.Release()
	wg.Wait()
	// The first one's script in full, then ten calls, and one command for the ten others, first
	// by hash and then in full.
	if got := faults.CountCommands(); got > 14 {
		t.Errorf("%d commands, want 14 at most", got)
	}
}

// Whoever sends others' items and panics must not make them believe that their items were sent.
func TestGateTellsOfAPanic(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	g := script.NewGate(1, func(_ context.Context, items []int) {
		if items[0] == 0 {
			close(began)
			<-release
			return
		}
		panic("a hook of the client")
	})
	var all sync.WaitGroup
	do := func(item int) (err error) {
		defer func() {
			if recover() != nil {
				err = errors.New("recovered")
			}
		}()
		return g.Do(t.Context(), item)
	}
	errs := make([]error, 4)
	all.Go(func() { errs[0] = do(0) })
	<-began
	for i := 1; i < 4; i++ {
		all.Go(func() { errs[i] = do(i) })
		for g.Waiting() < i {
			runtime.Gosched()
		}
	}
	close(release)
	all.Wait()
	if errs[0] != nil || errs[1] == nil || !errors.Is(errs[2], script.ErrPanicked) || !errors.Is(errs[3], script.ErrPanicked) {
		t.Errorf("the errors are %v", errs)
	}
	if err := do(0); err == nil { // began is closed twice: the request is free again
		t.Error("no panic")
	}
}
