package protocol_test

import (
	"fmt"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A question reaches the routes of its turn, and so does its end, unless delivery of the question
// was not tried yet.
func TestQuestionsAreDelivered(t *testing.T) {
	t.Parallel()
	known := []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}
	for name, end := range map[string]func(b *actors.Bench, h *protocol.Claim){
		"decided": func(b *actors.Bench, _ *protocol.Claim) {
			_, err := b.Client.Session(actors.Key).As("alice").Decide(b.Ctx, "1", session.Allow)
			expect.OK(b, err)
		},
		"withdrawn": func(b *actors.Bench, h *protocol.Claim) { _, err := h.Withdraw(b.Ctx); expect.OK(b, err) },
		"finished":  func(b *actors.Bench, h *protocol.Claim) { b.Finish(h) },
		"crashed":   func(b *actors.Bench, _ *protocol.Claim) { b.Die(); b.Claim() },
		"requeued":  func(b *actors.Bench, h *protocol.Claim) { expect.OK(b, h.Requeue(b.Ctx, "drain")) },
	} {
		for _, taken := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", taken), func(t *testing.T) {
				t.Parallel()
				b := actors.NewBench(t)
				expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
				b.Say("a")
				h := b.Start()
				b.Renew(h)
				b.Asks(h, "run make")
				expect.List(t, "asked", recorded(b), "question.asked a")
				expect.Equal(t, "number", records(b)[0].Data.Number, 1)
				var want []string
				if taken {
					_, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
					expect.OK(t, err)
					want = []string{"question.asked a", "question.closed a"}
				}
				end(b, h)
				if name == "finished" {
					want = append(want, "message.done a")
				}
				expect.List(t, "closed", recorded(b), want...)
				if all := records(b); taken && name == "decided" {
					expect.Equal(t, "decision", all[1].Data.Decision+" by "+all[1].Data.By, "allowed by alice")
				} else if taken {
					expect.Equal(t, "decision", all[1].Data.Decision+all[1].Data.By, "")
				}
			})
		}
	}
}

// A question may be delivered while its queue is leased, at any place in the queue: then its end is
// delivered, too.
func TestAQuestionBehindOthersIsClosed(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.SayAll("a", "b")
	h := b.Start()
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	expect.OK(t, h.Promote(b.Ctx))
	b.Asks(h, "run make")
	taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}, time.Minute)
	expect.OK(t, err)
	expect.Equal(t, "taken", len(taken.Deliveries), 2)
	b.Command("/approve")
	expect.List(t, "records", recorded(b), "message.done a", "question.asked b", "question.closed b")
}
