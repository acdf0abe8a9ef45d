package engine_test

import (
	"testing"
	"time"

	"turnstile/pkg/agent/echo"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A claim whose reply is lost costs nobody a turn, nor the session its sentinel's time.
func TestAClaimWithoutAReplyIsTakenBackByTheWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var f redistest.Faults
	f.LoseReply(claiming, 3)
	r.worker(echo.New(), faulty(&f), sentinelTTL(time.Hour))
	r.say("m1", "hello")
	r.ends("m1", session.StatusDone)
	expect.Equal(t, "turns told", len(r.started("m1")), 1)
	expect.List(t, "transcript", r.transcript(r.key), "user hello", "assistant echo: hello")
	record, err := r.client.ResumeRecord(r.ctx, r.key)
	expect.OK(t, err)
	expect.Equal(t, "interruptions", record.Interruptions, 0)
}
