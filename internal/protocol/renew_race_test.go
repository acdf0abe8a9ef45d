package protocol_test

import (
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A finish that has released the sentinel, but whose answer is still on its way,
// is not undone by a renewal that finds the sentinel gone.
func TestRenewalDuringARelease(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a")
	h := b.start()
	faults := &redistest.Faults{}
	b.rdb.AddHook(faults)
	for _, s := range variantsOf("finish") {
		expect.OK(t, s.Load(b.ctx, b.rdb).Err())
	}
	gate := faults.GateReply(called("finish"))
	ended := make(chan error, 1)
	go func() {
		_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Reply: "re: a"})
		ended <- err
	}()
	<-gate.Arrived()
	expect.Equal(t, "sentinels", b.rdb.Exists(b.ctx, b.k.Sentinel()).Val(), 0)
	for _, r := range b.c.Renew(b.ctx, []*sq.Claim{h}) {
		expect.OK(t, r.Err)
	}
	gate.Release()
	expect.OK(t, <-ended)
}
