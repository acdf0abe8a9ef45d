package backoff_test

import (
	"math"
	"testing"
	"time"

	"turnstile/internal/backoff"
	"turnstile/test/expect"
)

func TestAfter(t *testing.T) {
	t.Parallel()
	b := backoff.Backoff{First: time.Second, Longest: 5 * time.Second}
	for n, want := range map[int]string{0: "1s", 1: "1s", 2: "2s", 3: "4s", 4: "5s", 5: "5s", math.MaxInt: "5s"} {
		expect.Equal(t, "the pause", b.After(n).String(), want)
	}
	expect.Equal(t, "a first one over the longest", backoff.Backoff{First: time.Hour, Longest: time.Minute}.After(1), time.Minute)
	b.Spread = true
	different := map[time.Duration]bool{}
	for range 100 {
		pause := b.After(3)
		if pause < 3*time.Second || pause > 5*time.Second {
			t.Errorf("a quarter around 4s is %s", pause)
		}
		different[pause] = true
	}
	if len(different) < 2 {
		t.Error("all pauses are equal")
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	close(done)
	backoff.Backoff{First: time.Hour, Longest: time.Hour}.Wait(done, 1)
	backoff.Backoff{First: time.Millisecond, Longest: time.Hour}.Wait(nil, 1)
}
