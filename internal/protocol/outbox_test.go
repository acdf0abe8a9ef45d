package protocol_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A queue is delivered in order, by one deliverer at a time.
func TestLinesAreInOrder(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
		b.SayAll("a", "b", "c")
		b.Drain()
		known := []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}
		take := func() []deliveries.Delivery {
			taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
			expect.OK(t, err)
			return taken.Deliveries
		}
		ack := func(a deliveries.Ack) (ok, left bool) {
			ok, left, err := a.Do(b.Ctx, b.Redis)
			expect.OK(t, err)
			return ok, left
		}
		first := take()
		expect.Equal(t, "taken", len(first), 3)
		expect.Equal(t, "for another one", len(take()), 0)
		expect.Equal(t, "rises", slices.IsSortedFunc(first, func(x, y deliveries.Delivery) int { return int(x.Sequence - y.Sequence) }), true)

		ok, left := ack(deliveries.Ack{Delivery: first[0], Verdict: deliveries.Delivered})
		expect.Equal(t, "acknowledged, more", fmt.Sprint(ok, left), "true true")
		ok, _ = ack(deliveries.Ack{Delivery: first[1], Verdict: deliveries.Again, Unsure: true, Why: "503"})
		expect.Equal(t, "acknowledged", ok, true)
		second := take()
		expect.Equal(t, "the rest", len(second), 2)
		expect.Equal(t, "the same record", second[0].ID, first[1].ID)
		expect.Equal(t, "text", string(second[0].Body), string(first[1].Body))
		expect.Equal(t, "attempt, unsure", fmt.Sprint(second[0].Attempt, second[0].Unsure), "2 true")
		expect.Equal(t, "attempt, unsure", fmt.Sprint(second[1].Attempt, second[1].Unsure), "1 false")

		// The first holder's lease is over.
		ok, _ = ack(deliveries.Ack{Delivery: first[2], Verdict: deliveries.Delivered})
		expect.Equal(t, "acknowledged by another", ok, false)

		ok, _ = ack(deliveries.Ack{Delivery: second[0], Verdict: deliveries.GiveUp, Why: "422"})
		expect.Equal(t, "given up", ok, true)
		ok, left = ack(deliveries.Ack{Delivery: second[1], Verdict: deliveries.Delivered})
		expect.Equal(t, "acknowledged, more", fmt.Sprint(ok, left), "true false")

		n, more, err := deliveries.Redrive{Session: actors.Key, Call: "name", Most: 10}.Do(b.Ctx, b.Redis)
		expect.OK(t, err)
		expect.Equal(t, "redriven", fmt.Sprint(n, more), "1 false")
		third := take()
		expect.Equal(t, "redriven record", third[0].ID, second[0].ID)
		expect.Equal(t, "behind the others", third[0].Sequence > second[1].Sequence, true)
		ack(deliveries.Ack{Delivery: third[0], Verdict: deliveries.Delivered})
		left1 := b.Redis.HGetAll(b.Ctx, b.Keys.Deliveries()).Val()
		expect.List(t, "left", slices.Sorted(maps.Keys(left1)), "routes", "seq")
	})
}

// A deliverer that dies leaves its attempt unsure: the receiver may have got it.
func TestADeadDeliverersAttemptIsUnsure(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	b.Drain()
	known := []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}
	first, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, 5*time.Millisecond)
	expect.OK(t, err)
	b.Pass(10 * time.Millisecond)
	second, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
	expect.OK(t, err)
	expect.Equal(t, "taken again", second.Deliveries[0].ID, first.Deliveries[0].ID)
	expect.Equal(t, "unsure", fmt.Sprint(first.Deliveries[0].Unsure, second.Deliveries[0].Unsure), "false true")
	ok, _, err := deliveries.Ack{Delivery: second.Deliveries[0], Verdict: deliveries.Untried}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	expect.Equal(t, "released", ok, true)
	third, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
	expect.OK(t, err)
	expect.Equal(t, "still unsure", fmt.Sprint(third.Deliveries[0].Unsure, third.Deliveries[0].Attempt), "true 1")
}

// An attempt that failed counts for its record only: the next one, if that was removed meanwhile, has
// none.
func TestAnAttemptCountsForItsRecord(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.SayAll("a", "b")
	b.Drain()
	take := func() []deliveries.Delivery {
		taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}, time.Minute)
		expect.OK(t, err)
		return taken.Deliveries
	}
	first := take()[0]
	b.Redis.ZRem(b.Ctx, b.Keys.Outbox(), fmt.Sprint("hook ", first.Sequence))
	_, _, err := deliveries.Ack{Delivery: first, Verdict: deliveries.Again, Wait: time.Hour}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	expect.Equal(t, "attempt of the next", take()[0].Attempt, 1)
}

// A record with an unknown destination is kept for three days, then given up.
func TestRecordsOfUnknownDestinations(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	b.Drain()
	take := func() deliveries.TakenLines {
		taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, nil, time.Minute)
		expect.OK(t, err)
		return taken
	}
	expect.Equal(t, "unknown", take().Unknown, 1)
	member := b.Redis.ZRange(b.Ctx, b.Keys.Outbox(), 0, 0).Val()[0]
	_, sequence, _ := strings.Cut(member, " ")
	old := fmt.Sprint(time.Now().Add(-73 * time.Hour).UnixMilli())
	b.Redis.HSet(b.Ctx, b.Keys.Deliveries(), old, b.Redis.HGet(b.Ctx, b.Keys.Deliveries(), sequence).Val())
	b.Redis.ZRem(b.Ctx, b.Keys.Outbox(), member)
	b.Redis.ZAdd(b.Ctx, b.Keys.Outbox(), redis.Z{Member: "hook " + old})
	taken := take()
	expect.Equal(t, "unknown, look again", fmt.Sprint(taken.Unknown, taken.At), "0 0")
	expect.Equal(t, "why", b.Redis.HGet(b.Ctx, b.Keys.Deliveries(), "why "+old).Val(), "it was too old, and nobody knows its destination")
}

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
		"requeued": func(b *actors.Bench, h *protocol.Claim) {
			expect.OK(b, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
		},
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

// sendBy sends a message with its outcome to hook, by a time or within a duration.
func sendBy(b *actors.Bench, id, by string, opts ...actors.Option) {
	b.Helper()
	route, err := wire.Route{To: "hook"}.DeliverBy(by)
	expect.OK(b, err)
	_, err = receipt.Input(b.Ctx, b.Client.Session(actors.Key), actors.With(turnstile.Message{ID: id, Text: id, Mode: session.ModeCollect}, append(opts, actors.ReplyTo(route))...))
	expect.OK(b, err)
}

// takeAll takes the records to deliver now, and returns why others were given up.
func takeAll(b *actors.Bench, maxAge time.Duration) (taken deliveries.TakenLines, dead []string) {
	b.Helper()
	taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: maxAge}}, time.Minute)
	expect.OK(b, err)
	for _, member := range b.Redis.ZRange(b.Ctx, b.Keys.Undelivered(), 0, -1).Val() {
		_, sequence, _ := strings.Cut(member, " ")
		dead = append(dead, b.Redis.HGet(b.Ctx, b.Keys.Deliveries(), "why "+sequence).Val())
	}
	return taken, dead
}

const tooLate = "it was too late: its deliver_by was over"

// A message's own time counts, sooner or later than its destination's.
func TestDeliverBy(t *testing.T) {
	t.Parallel()
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct {
		by     string
		maxAge time.Duration
		dead   string
	}{
		"a time that is over":           {past, time.Hour, tooLate},
		"the destination's":             {"", -time.Hour, "it was too old"},
		"a longer one":                  {"10m", -time.Hour, ""},
		"a longer one, as a time":       {time.Now().Add(time.Hour).Format(time.RFC3339), -time.Hour, ""},
		"one that is not representable": {"9999-12-31T23:59:59Z", -time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				sendBy(b, "a", c.by)
				b.Drain()
				taken, dead := takeAll(b, c.maxAge)
				if c.dead == "" {
					expect.Equal(t, "taken", len(taken.Deliveries), 1)
					expect.Equal(t, "has a time of its own", taken.Deliveries[0].By > taken.Now, true)
					return
				}
				expect.Equal(t, "taken", len(taken.Deliveries), 0)
				expect.List(t, "given up", dead, c.dead)
			})
		})
	}
}

// It counts from the acceptance, by Redis' clock.
func TestDeliverWithin(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	before := b.Redis.Time(b.Ctx).Val().UnixMilli()
	sendBy(b, "a", "5ms", actors.Delay(time.Second)) // its turn is later than that
	at, err := b.Redis.HGet(b.Ctx, b.Keys.Deliveries(), "deliver_by a").Int64()
	expect.OK(t, err)
	if now := b.Redis.Time(b.Ctx).Val().UnixMilli(); at < before+5 || at > now+5 {
		t.Errorf("deliver by %d, it was accepted between %d and %d", at, before, now)
	}
	expect.Soon(t, "the turn", func() bool {
		b.Drain()
		return b.Redis.ZCard(b.Ctx, b.Keys.Outbox()).Val() == 1
	})
	_, dead := takeAll(b, time.Hour)
	expect.List(t, "given up", dead, tooLate)
}

// A record of several messages is to be delivered as long as one of them wants it.
func TestDeliverByOfSeveral(t *testing.T) {
	t.Parallel()
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		times []string
		taken int
	}{{[]string{past, past}, 0}, {[]string{past, "10m"}, 1}, {[]string{past, ""}, 1}} {
		t.Run(fmt.Sprint(c.times), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("now")
			h := b.Start()
			for i, by := range c.times {
				sendBy(b, fmt.Sprint("m", i), by)
				b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task(fmt.Sprint("m", i))), "quiet", "1 100")
			}
			expect.Equal(t, "they are the next turn", b.Finish(h), true)
			b.Finish(h)
			taken, _ := takeAll(b, time.Hour)
			expect.Equal(t, "taken", len(taken.Deliveries), c.taken)
		})
	}
}

// An operator who redrives a record, or reruns a message, wants it delivered.
func TestDeliverByIsOverAfterRedriveAndRerun(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	sendBy(b, "a", time.Now().Add(-time.Hour).Format(time.RFC3339))
	_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
	expect.OK(t, err)
	_, dead := takeAll(b, time.Hour)
	expect.List(t, "given up", dead, tooLate)

	_, _, err = deliveries.Redrive{Session: actors.Key, Call: "name", Most: 10}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	taken, _ := takeAll(b, time.Hour)
	expect.Equal(t, "taken after a redrive", len(taken.Deliveries), 1)
	_, _, err = deliveries.Ack{Delivery: taken.Deliveries[0], Verdict: deliveries.Delivered}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)

	// A field that an end has left.
	b.Redis.HSet(b.Ctx, b.Keys.Deliveries(), "deliver_by a", "1")
	b.Command("/resume")
	b.Drain()
	taken, _ = takeAll(b, time.Hour)
	expect.Equal(t, "taken after a rerun", len(taken.Deliveries), 1)
	_, _, err = deliveries.Ack{Delivery: taken.Deliveries[0], Verdict: deliveries.Delivered}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	for field := range b.Redis.HGetAll(b.Ctx, b.Keys.Deliveries()).Val() {
		if strings.HasPrefix(field, "deliver_by ") || strings.HasPrefix(field, "by ") {
			t.Errorf("%q is left", field)
		}
	}
}

// A notice that a reply is void is delivered however late: the reply may have arrived.
func TestWithdrawnHasNoDeliverBy(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	sendBy(b, "a", time.Now().Add(-time.Hour).Format(time.RFC3339))
	b.Drain()
	_, dead := takeAll(b, time.Hour)
	expect.List(t, "given up", dead, tooLate)
	b.Command("/undo")
	taken, _ := takeAll(b, time.Hour)
	expect.Equal(t, "taken", len(taken.Deliveries), 1)
	expect.List(t, "records", recorded(b), "message.withdrawn a")
}
