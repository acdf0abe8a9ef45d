package protocol_test

import (
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A finish that has released the sentinel, but whose answer is still on its way,
// is not undone by a renewal that finds the sentinel gone.
func TestRenewalDuringARelease(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a")
	h := b.Start()
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	for _, s := range variantsOf("finish") {
		expect.OK(t, s.Load(b.Ctx, b.Redis).Err())
	}
	gate := faults.GateReply(actors.Script("finish"))
	ended := make(chan error, 1)
	go func() {
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: "re: a"})
		ended <- err
	}()
	<-gate.Arrived()
	expect.Equal(t, "sentinels", b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val(), 0)
	for _, r := range b.Worker.Renew(b.Ctx, []*protocol.Claim{h}) {
		expect.OK(t, r.Err)
	}
	gate.Release()
	expect.OK(t, <-ended)
}
