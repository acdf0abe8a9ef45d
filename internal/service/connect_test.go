package service

import (
	"errors"
	"net"
	"testing"

	"turnstile/internal/config"
	"turnstile/internal/redisconn"
	"turnstile/test/redistest"
)

func TestMayPass(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		redistest.ReplyError("LOADING Redis is loading the dataset in memory"): true,
		redistest.ReplyError("WRONGPASS invalid username-password pair"):       false,
		redisconn.ErrTooOld: false,
		net.ErrClosed:       true,
		errors.New("x"):     true,
	} {
		if mayPass(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

func TestPoolSize(t *testing.T) {
	t.Parallel()
	for concurrency, want := range map[int]int{1: 16, 50: 58, 10000: 128} {
		if got := PoolSize(config.Worker{Concurrency: concurrency}); got != want {
			t.Errorf("%d turns: %d connections, want %d", concurrency, got, want)
		}
	}
}
