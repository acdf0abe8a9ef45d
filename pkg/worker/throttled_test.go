package worker_test

import (
	"errors"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/pkg/worker"
	"turnstile/test/expect"
)

// A provider that asks for a pause costs the turn no attempt, and what it has done stays. From the second time on it
// waits at least a minute, and /stop ends it.
func TestThrottledTurnWaits(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newStage()
	r.worker(s, with(func(o *worker.Config) { o.MaxAttempts = 1 }))
	r.say("m1", "hello")
	a := s.next(t, "m1")
	expect.Equal(t, "throttled", a.Throttled, 0)
	a.text("half")
	a.fail(agent.Throttled(errors.New("too many requests"), 20*time.Millisecond))
	r.say("m2", "behind")
	b := s.next(t, "m1")
	expect.Equal(t, "throttled", b.Throttled, 1)
	expect.Equal(t, "attempt", b.Attempt, 1)
	expect.Equal(t, "redelivered", b.Redelivered, false)
	expect.List(t, "history", brief(b.History), "user hello", "assistant half (interrupted)")
	b.fail(agent.Throttled(errors.New("too many requests"), time.Second))
	var waits []time.Duration
	expect.Soon(t, "the turn waits", func() bool {
		waits = nil
		for _, e := range r.events(r.key) {
			if e.Type == session.EventTurnRequeued {
				expect.Equal(t, "reason", e.Reason, session.ReasonThrottled)
				waits = append(waits, time.Duration(e.RetryIn))
			}
		}
		return len(waits) == 2
	})
	if waits[1] < time.Minute || waits[1] > 66*time.Second {
		t.Errorf("the second wait is %s, want a minute, or a tenth more", waits[1])
	}
	_, err := r.client.Session(r.key).Stop(r.ctx)
	expect.OK(t, err)
	r.ends("m1", session.StatusStopped)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant half (interrupted)")
}

func TestThrottleWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		asked  time.Duration
		before int
		want   time.Duration
	}{
		{30 * time.Second, 0, 30 * time.Second},
		{30 * time.Second, 1, time.Minute},
		{5 * time.Minute, 1, 5 * time.Minute},
		{48 * time.Hour, 0, time.Hour},
		{0, 0, time.Minute},
		{0, 2, 4 * time.Minute},
		{0, 100, 10 * time.Minute},
		{-time.Second, 0, time.Minute},
	} {
		if got := worker.ThrottleWait(c.asked, c.before); got < c.want || got > c.want+c.want/10 {
			t.Errorf("asked for %s, waited %d times before: waits %s, want %s, or a tenth more", c.asked, c.before, got, c.want)
		}
	}
}
