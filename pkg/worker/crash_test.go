package worker_test

import (
	"testing"
	"time"

	sq "turnstile/pkg/sessionqueue"
)

func TestCrashIsRecoveredWithinTheTTL(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const ttl = 1500 * time.Millisecond
	one := r.process("one", job{TTL: ttl})
	r.say("m1", "sleep=500ms hello")
	r.say("m2", "behind")
	r.awaitEvent("the first turn", func(e sq.Event) bool { return e.Type == sq.EventTurnStarted })
	two := r.process("two", job{TTL: ttl})
	one.kill()
	killed := time.Now()
	r.ends("m1", sq.StatusDone)
	r.ends("m2", sq.StatusDone)
	equalList(t, "turns", r.starts(r.key), "m1", "m1", "m2")
	again := r.events(r.key)[1]
	took := again.At.Sub(killed)
	t.Logf("the message was started again %s after kill -9, the TTL being %s", took, ttl)
	if took > ttl+3*time.Second {
		t.Errorf("recovery took %s", took)
	}
	_ = two
}
