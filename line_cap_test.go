package turnstile_test

import (
	"errors"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The cap holds while a turn runs, also for messages that go first. The receipt's error names it.
func TestLineCapOfARunningSession(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 2)
	b.Say("a")
	h := b.Start()
	b.SayAll("b", "c")
	for _, mode := range []session.Mode{session.ModeQueue, session.ModeCollect, session.ModeSteer, session.ModeInterrupt, session.ModeRollback} {
		r := b.Say("over", mode)
		expect.Equal(t, string(mode), string(r.Status)+" "+r.Reason, "refused line")
		expect.Equal(t, "as an error", errors.Is(r.Err, session.ErrQueueFull), true)
	}
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("requested of the turn: %v", r.Requested)
	}
	expect.Equal(t, "a rejected one", b.Say("r", session.ModeReject).Reason, "busy")
	b.Finish(h)
	expect.Equal(t, "there is room again", b.Say("d").Status, receipt.Queued)
	expect.Equal(t, "no error", b.Say("d").Err, nil)
}

// A drop policy makes room for the newest message.
func TestLineCapBesideADropPolicy(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 2, func(c *protocol.Config) { c.Line.Cap, c.Line.Drop = 2, "old" })
	b.Say("a")
	b.Start()
	b.SayAll("b", "c", "d")
	expect.List(t, "the line", b.Waiting(), "c", "d")
}

// Delayed messages count, and may fill half of the queue.
func TestDelayedMessagesCount(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 4)
	delayed := func(id string) string {
		r, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: id, Text: id, Delay: time.Hour})
		expect.OK(t, err)
		return string(r.Status) + " " + r.Reason
	}
	expect.Equal(t, "first", delayed("d1"), "scheduled ")
	expect.Equal(t, "second", delayed("d2"), "scheduled ")
	expect.Equal(t, "third", delayed("d3"), "refused line")
	expect.Equal(t, "stored", b.State("d3"), "")
	expect.Equal(t, "waiting", b.Redis.ZCard(b.Ctx, b.Keys.Scheduled()).Val(), 2)
	b.SayAll("a", "b")
	expect.Equal(t, "a third", b.Say("c").Reason, "line")
	b.Backdate("d1")
	expect.Equal(t, "once it has joined", b.Say("c").Reason, "line")
}

// A repeated accept adds no message: it has the first one's result.
func TestLineCapOfARepetition(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Client = actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Queue: 2}})
		expect.Equal(t, "first", b.Say("a").Status, receipt.Accepted)
		expect.Equal(t, "second", b.Say("b").Status, receipt.Accepted)
		expect.Equal(t, "third", b.Say("c").Reason, "line")
		expect.Equal(t, "delayed", b.Say("c").Reason, "line")
		expect.List(t, "the line", b.Waiting(), "a", "b")
	})
}

// An idle session's queue ends at 10,000: further messages are refused, and nothing is stored.
func TestSubmitIntoAFullLine(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Flood(9_999)
	expect.Equal(t, "the last", b.Say("last").Status, receipt.Accepted)
	before := b.Redis.DBSize(b.Ctx).Val()
	r := b.Say("over")
	expect.Equal(t, "one more", string(r.Status)+" "+r.Reason, "refused line")
	expect.Equal(t, "stored", b.State("over"), "")
	expect.Equal(t, "in the line", b.Redis.LLen(b.Ctx, b.Keys.Pending()).Val(), 10_000)
	expect.Equal(t, "keys", b.Redis.DBSize(b.Ctx).Val()-before, 0)
	expect.Equal(t, "what is in stays", b.Say("last").Status, receipt.Duplicate)
}
