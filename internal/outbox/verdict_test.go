package outbox

import (
	"errors"
	"testing"
	"time"

	"turnstile/internal/backoff"
	"turnstile/internal/protocol/deliveries"
	"turnstile/test/expect"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	b := backoff.Backoff{First: time.Second, Longest: time.Minute, Spread: true}
	const day = 24 * time.Hour
	for status, want := range map[int]struct {
		class   class
		unsure  bool
		refused bool // counts towards a dead letter
	}{
		200: {class: alive}, 204: {class: alive}, 299: {class: alive},
		0:   {class: failing, unsure: true},
		301: {class: failing}, 307: {class: failing},
		400: {class: alive, refused: true}, 405: {class: alive, refused: true}, 409: {class: alive, refused: true},
		413: {class: alive, refused: true}, 422: {class: alive, refused: true}, 418: {class: alive, refused: true},
		401: {class: failing}, 403: {class: failing}, 404: {class: failing},
		408: {class: busy, unsure: true}, 425: {class: busy}, 429: {class: busy},
		410: {class: gone},
		500: {class: failing, unsure: true}, 502: {class: failing, unsure: true}, 503: {class: failing, unsure: true}, 504: {class: failing, unsure: true},
		520: {class: failing, unsure: true}, 521: {class: failing, unsure: true}, 522: {class: failing, unsure: true}, 523: {class: failing, unsure: true},
		524: {class: failing, unsure: true}, 599: {class: failing, unsure: true}, 999: {class: failing},
	} {
		a := answer{status: status, sent: true}
		if status == 0 {
			a.err = errors.New("broken pipe")
		}
		expect.Equal(t, a.why()+": class", classify(a), want.class)
		expect.Equal(t, a.why()+": unsure", unsure(a), want.unsure)
		early, late := judge(b, a, deliveries.Delivery{Attempt: 40, Refused: 3}, time.Hour, day), judge(b, a, deliveries.Delivery{Attempt: 5, Refused: 4}, time.Hour, day)
		switch {
		case status/100 == 2:
			expect.Equal(t, a.why(), early.Verdict, deliveries.Delivered)
		case want.refused:
			expect.Equal(t, a.why()+" for the 4th time", early.Verdict, deliveries.Again)
			expect.Equal(t, a.why()+" for the 5th time", late.Verdict, deliveries.GiveUp)
		default:
			expect.Equal(t, a.why(), late.Verdict, deliveries.Again)
			expect.Equal(t, a.why()+" at its age", judge(b, a, deliveries.Delivery{Attempt: 1}, day, day).Verdict, deliveries.GiveUp)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	b := backoff.Backoff{First: time.Second, Longest: time.Minute, Spread: true}
	for n, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 7: time.Minute, 1 << 40: time.Minute} {
		if got := b.After(n); got < want*3/4 || got > want*5/4 {
			t.Errorf("after attempt %d: %s, want about %s", n, got, want)
		}
	}
	wait := func(after, age time.Duration) time.Duration {
		a := answer{status: 503, retryAfter: after}
		return judge(b, a, deliveries.Delivery{Attempt: 1}, age, 72*time.Hour).Wait
	}
	expect.Equal(t, "Retry-After", wait(10*time.Minute, 0), 10*time.Minute)
	expect.Equal(t, "a Retry-After of a year", wait(365*24*time.Hour, 0), longestRetryAfter)
	expect.Equal(t, "a Retry-After beyond the age", wait(10*time.Minute, 72*time.Hour-time.Minute), time.Minute)
	if got := wait(time.Millisecond, 0); got < 750*time.Millisecond {
		t.Errorf("a Retry-After below the backoff: %s", got)
	}
}

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
