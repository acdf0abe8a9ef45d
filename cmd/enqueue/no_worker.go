package main

import (
	"context"
	"time"

	"turnstile"
)

// noWorkerAfter is when the check for a running worker begins. The check takes another second and a
// half if none is running, so the hint comes after 3 s.
const noWorkerAfter = 1500 * time.Millisecond

// hintNoWorker calls say if no worker is running and the wait still lasts. stop ends the check and
// waits for it.
func hintNoWorker(ctx context.Context, client *turnstile.Client, say func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(noWorkerAfter):
		}
		if has, err := client.HasWorker(ctx); !has && err == nil {
			say()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
