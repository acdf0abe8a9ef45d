package protocol_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/deliveries"
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
