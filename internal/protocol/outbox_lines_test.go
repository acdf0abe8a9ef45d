package protocol_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A line is delivered in order, by one deliverer at a time.
func TestLinesAreInOrder(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
		b.SayAll("a", "b", "c")
		b.Drain()
		known := []protocol.Line{{Destination: "hook", MaxAge: time.Hour}}
		take := func() []protocol.Delivery {
			taken, err := protocol.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
			expect.OK(t, err)
			return taken.Deliveries
		}
		ack := func(a protocol.Ack) (ok, left bool) {
			ok, left, err := a.Do(b.Ctx, b.Redis)
			expect.OK(t, err)
			return ok, left
		}
		first := take()
		expect.Equal(t, "taken", len(first), 3)
		expect.Equal(t, "for another one", len(take()), 0)
		expect.Equal(t, "rises", slices.IsSortedFunc(first, func(x, y protocol.Delivery) int { return int(x.Sequence - y.Sequence) }), true)

		ok, left := ack(protocol.Ack{Delivery: first[0], Verdict: protocol.Delivered})
		expect.Equal(t, "acknowledged, more", fmt.Sprint(ok, left), "true true")
		ok, _ = ack(protocol.Ack{Delivery: first[1], Verdict: protocol.Again, Unsure: true, Why: "503"})
		expect.Equal(t, "acknowledged", ok, true)
		second := take()
		expect.Equal(t, "the rest", len(second), 2)
		expect.Equal(t, "the same record", second[0].ID, first[1].ID)
		expect.Equal(t, "text", string(second[0].Body), string(first[1].Body))
		expect.Equal(t, "attempt, unsure", fmt.Sprint(second[0].Attempt, second[0].Unsure), "2 true")
		expect.Equal(t, "attempt, unsure", fmt.Sprint(second[1].Attempt, second[1].Unsure), "1 false")

		// The first holder's lease has ended.
		ok, _ = ack(protocol.Ack{Delivery: first[2], Verdict: protocol.Delivered})
		expect.Equal(t, "acknowledged by another", ok, false)

		ok, _ = ack(protocol.Ack{Delivery: second[0], Verdict: protocol.GiveUp, Why: "422"})
		expect.Equal(t, "given up", ok, true)
		ok, left = ack(protocol.Ack{Delivery: second[1], Verdict: protocol.Delivered})
		expect.Equal(t, "acknowledged, more", fmt.Sprint(ok, left), "true false")

		n, more, err := protocol.Redrive{Session: actors.Key, Call: "name", Most: 10}.Do(b.Ctx, b.Redis)
		expect.OK(t, err)
		expect.Equal(t, "redriven", fmt.Sprint(n, more), "1 false")
		third := take()
		expect.Equal(t, "redriven record", third[0].ID, second[0].ID)
		expect.Equal(t, "behind the others", third[0].Sequence > second[1].Sequence, true)
		ack(protocol.Ack{Delivery: third[0], Verdict: protocol.Delivered})
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
	known := []protocol.Line{{Destination: "hook", MaxAge: time.Hour}}
	first, err := protocol.TakeLines(b.Ctx, b.Redis, actors.Key, known, 5*time.Millisecond)
	expect.OK(t, err)
	b.Pass(10 * time.Millisecond)
	second, err := protocol.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
	expect.OK(t, err)
	expect.Equal(t, "taken again", second.Deliveries[0].ID, first.Deliveries[0].ID)
	expect.Equal(t, "unsure", fmt.Sprint(first.Deliveries[0].Unsure, second.Deliveries[0].Unsure), "false true")
	ok, _, err := protocol.Ack{Delivery: second.Deliveries[0], Verdict: protocol.Untried}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	expect.Equal(t, "released", ok, true)
	third, err := protocol.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
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
	take := func() []protocol.Delivery {
		taken, err := protocol.TakeLines(b.Ctx, b.Redis, actors.Key, []protocol.Line{{Destination: "hook", MaxAge: time.Hour}}, time.Minute)
		expect.OK(t, err)
		return taken.Deliveries
	}
	first := take()[0]
	b.Redis.ZRem(b.Ctx, b.Keys.Outbox(), fmt.Sprint("hook ", first.Sequence))
	_, _, err := protocol.Ack{Delivery: first, Verdict: protocol.Again, Wait: time.Hour}.Do(b.Ctx, b.Redis)
	expect.OK(t, err)
	expect.Equal(t, "attempt of the next", take()[0].Attempt, 1)
}

// A record whose destination no deliverer knows is kept for three days, then given up.
func TestRecordsOfUnknownDestinations(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	b.Drain()
	take := func() protocol.TakenLines {
		taken, err := protocol.TakeLines(b.Ctx, b.Redis, actors.Key, nil, time.Minute)
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
