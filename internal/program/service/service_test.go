package service

import (
	"testing"

	"turnstile/internal/program/config"
)

func TestPoolSize(t *testing.T) {
	t.Parallel()
	for concurrency, want := range map[int]int{1: 16, 50: 58, 10000: 128} {
		if got := PoolSize(config.Worker{Concurrency: concurrency}); got != want {
			t.Errorf("%d turns: %d connections, want %d", concurrency, got, want)
		}
	}
}
