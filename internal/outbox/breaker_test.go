package outbox

import (
	"testing"
	"time"

	"turnstile/internal/backoff"
	"turnstile/test/expect"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := &breaker{open: backoff.Backoff{First: 8 * time.Second, Longest: 32 * time.Second, Spread: true}}
	attempt := func(session string, c class) change {
		t.Helper()
		probe, wait := b.admit(now)
		if wait > 0 {
			t.Fatalf("an attempt is to wait %s", wait)
		}
		what, _ := b.done(session, probe, c, now)
		return what
	}
	for range 10 {
		expect.Equal(t, "one session that fails", attempt("one", failing), unchanged)
	}
	expect.Equal(t, "two", attempt("two", failing), unchanged)
	expect.Equal(t, "a refusal in between", attempt("three", alive), unchanged)
	attempt("one", failing)
	attempt("two", failing)
	_, _ = b.admit(now) // this attempt ends after the breaker has opened
	expect.Equal(t, "three", attempt("three", failing), opened)
	what, _ := b.done("four", false, failing, now)
	expect.Equal(t, "a late failure", what, unchanged)
	if wait := b.wait(now); wait < 6*time.Second || wait > 10*time.Second {
		t.Errorf("the pause is %s", wait)
	}

	now = now.Add(11 * time.Second)
	probe, _ := b.admit(now)
	expect.Equal(t, "a probe", probe, true)
	_, wait := b.admit(now)
	expect.Equal(t, "the wait beside a probe", wait, probeWait)
	b.cancel(probe)
	expect.Equal(t, "a probe that fails", attempt("five", failing), reopened)
	if wait := b.wait(now); wait < 12*time.Second || wait > 20*time.Second {
		t.Errorf("the second pause is %s", wait)
	}
	now = now.Add(21 * time.Second)
	expect.Equal(t, "a probe that succeeds", attempt("five", alive), closed)
	expect.Equal(t, "the wait then", b.wait(now), time.Duration(0))
	expect.Equal(t, "a failure after it", attempt("six", failing), unchanged)
}
