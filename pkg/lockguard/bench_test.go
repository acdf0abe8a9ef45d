package lockguard_test

import (
	"testing"
	"time"

	"turnstile/test/redistest"
)

func BenchmarkAcquireAndRelease(b *testing.B) {
	g := newGuard(b, redistest.New(b), ofTTL(time.Hour))
	b.ReportAllocs()
	for b.Loop() {
		lock, err := g.TryAcquire(b.Context(), "n")
		if err != nil {
			b.Fatal(err)
		}
		if err := lock.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
