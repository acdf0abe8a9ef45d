package turnstile_test

import (
	"fmt"
	"testing"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A refused message has its reason, and nothing else is removed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Cap = 2 })
	b.Say("a")
	h := b.Start()
	r := b.Say("no", session.ModeReject)
	expect.Equal(t, "status", r.Status, receipt.Refused)
	expect.Equal(t, "reason", r.Reason, "busy")
	expect.Equal(t, "stored", b.State("no"), "")

	b.SayAll("b", "c")
	r = b.Say("d")
	expect.Equal(t, "status", r.Status, receipt.Refused)
	expect.Equal(t, "reason", r.Reason, "full")
	expect.Equal(t, "stored", b.State("d"), "")
	expect.List(t, "the line", b.Waiting(), "b", "c")

	// Another sender's message with the same ID stays, although it is over the cap.
	b.Enqueue("e")
	r = b.Say("e", session.ModeReject)
	expect.Equal(t, "status", r.Status, receipt.Duplicate)
	expect.List(t, "the line", b.Waiting(), "b", "c", "e")

	list, err := b.Client.Operate(actors.Key).FollowUps(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "follow-ups", len(list), 3)
	for b.Finish(h) {
	}
	expect.Equal(t, "now", b.Say("no", session.ModeReject).Status, receipt.Accepted)
}

// Refusals leave nothing that grows, however long the turn.
func TestRefusalsDoNotPileUp(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	for i := range 150 {
		b.Say(fmt.Sprint("no", i), session.ModeReject)
	}
	b.Say("b")
	b.Finish(h)
	if n := b.Redis.HLen(b.Ctx, b.Keys.Followups()).Val(); n > 100 {
		t.Errorf("%d entries are stored for refused messages", n)
	}
}

// The reply to a refusal is lost, and the turn in the way ends before the sender repeats the
// request: it is accepted then, once.
func TestRefusalIsDecidedAnew(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	h := b.Start()

	again, first := &redistest.Faults{}, &redistest.Faults{}
	again.RunTwice(actors.Script("accept"), 1)
	heard := first.GateReply(actors.Script("accept"))
	b.Redis.AddHook(again)
	b.Redis.AddHook(first)
	receipts := make(chan receipt.Receipt, 1)
	go func() {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "new", Text: "new", Mode: session.ModeReject})
		if err != nil {
			t.Error(err)
		}
		receipts <- r
	}()
	<-heard.Arrived()
	b.Finish(h)
	heard.Release()
	r := <-receipts
	expect.Equal(t, "receipt", r.Status, receipt.Accepted)
	expect.List(t, "runs", b.Drain(), "new")
}

// A refusal leaves nothing.
func TestRefusalsLeaveNothing(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	b.Start()
	before := database(b)
	for range 3 {
		expect.Equal(t, "receipt", b.Say("new", session.ModeReject).Status, receipt.Refused)
	}
	actors.Same(t, "refusals", before, database(b))
}
