package protocol_test

import (
	"testing"
	"time"

	"turnstile"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// The reply to a refusal is lost, and the turn that was in the way ends before the
// sender asks again: it is refused all the same, for its message is gone.
func TestRefusalOutlivesTheTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	h := b.start()

	again, first := &redistest.Faults{}, &redistest.Faults{}
	again.RunTwice(called("notify"), 1)
	heard := first.GateReply(called("notify"))
	b.rdb.AddHook(again)
	b.rdb.AddHook(first)
	receipts := make(chan turnstile.Receipt, 1)
	go func() {
		r, err := b.client.Submit(b.ctx, key, session.Message{ID: "new", Text: "new", Mode: session.ModeReject})
		if err != nil {
			t.Error(err)
		}
		receipts <- r
	}()
	<-heard.Arrived()
	b.finish(h)
	heard.Release()
	r := <-receipts
	expect.Equal(t, "receipt", string(r.Status)+" "+r.Reason, "refused busy")
	expect.Equal(t, "state of the message", b.state("new"), "")

	expect.Equal(t, "another sender with this id", b.say("new", session.ModeReject).Status, turnstile.Accepted)
}

// A refusal is no follow-up: none is left behind, and none has to be searched for.
func TestRefusalsGoByThemselves(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	b.start()
	for range 3 {
		expect.Equal(t, "receipt", b.say("new", session.ModeReject).Status, turnstile.Refused)
	}
	expect.Equal(t, "follow-ups", b.rdb.HLen(b.ctx, b.k.Followups()).Val(), 0)
	calls := b.rdb.Keys(b.ctx, b.k.Call("*")).Val()
	expect.Equal(t, "refusals", len(calls), 3)
	for _, name := range calls {
		if ttl := b.rdb.TTL(b.ctx, name).Val(); ttl <= 0 || ttl > 5*time.Minute {
			t.Errorf("%s is kept for %v", name, ttl)
		}
	}
}

// What a sender of an older version keeps among the follow-ups is a refusal still: not
// one that waits, and nothing to another message with this id.
func TestRefusalsOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	b.start()
	expect.OK(t, b.rdb.HSet(b.ctx, b.k.Followups(), "new", `{"refused":"busy","nonce":"n","cap":1}`).Err())
	list, err := b.client.Followups(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "follow-ups", len(list), 0)
	expect.Equal(t, "receipt", b.say("new", session.ModeInterrupt).Position, 2)
	expect.Equal(t, "asked of the turn", b.rdb.HGet(b.ctx, b.k.Run(), "interrupt").Val(), b.rdb.HGet(b.ctx, b.k.Run(), "fence").Val())
}
