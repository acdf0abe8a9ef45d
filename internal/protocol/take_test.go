package protocol_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/deliveries"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// store puts n records of size bytes into the outbox, the first with that sequence.
func store(b *actors.Bench, to string, first int64, n, size int) {
	_, err := b.Redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		for i := range n {
			sequence := fmt.Sprint(first + int64(i))
			p.ZAdd(b.Ctx, b.Keys.Outbox(), redis.Z{Member: to + " " + sequence})
			p.HSet(b.Ctx, b.Keys.Deliveries(), sequence, strings.Repeat("x", size))
		}
		return nil
	})
	expect.OK(b, err)
}

// A queue is not leased if the call has no room for its record.
func TestTakeLeasesWhatItReturns(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	now := time.Now().UnixMilli()
	store(b, "a", now, 15, 256<<10)
	store(b, "b", now+100, 1, 300<<10)
	known := []deliveries.Line{{Destination: "a", MaxAge: time.Hour}, {Destination: "b", MaxAge: time.Hour}}
	for _, want := range []int{15, 1} {
		taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, known, time.Minute)
		expect.OK(t, err)
		expect.Equal(t, "taken", len(taken.Deliveries), want)
		expect.Equal(t, "unsure", taken.Deliveries[0].Unsure, false)
	}
}

// A call that gives up its maximum of records does not deliver other ones that are too old.
func TestTakeDeliversNothingTooOld(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	store(b, "hook", time.Now().Add(-2*time.Hour).UnixMilli(), 130, 10)
	for _, left := range []int64{30, 0} {
		taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}, time.Minute)
		expect.OK(t, err)
		expect.Equal(t, "taken", len(taken.Deliveries), 0)
		expect.Equal(t, "left", b.Redis.ZCard(b.Ctx, b.Keys.Outbox()).Val(), left)
		expect.Equal(t, "look again", taken.At > 0, left > 0)
	}
}

// A turn with many routes stores its outcome for each of them, so a large one is left out.
func TestManyRoutesAreTruncated(t *testing.T) {
	t.Parallel()
	for routes, truncated := range map[int]bool{2: false, 40: true} {
		t.Run(fmt.Sprint(routes), func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("now")
			h := b.Start()
			for i := range routes {
				_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: fmt.Sprint("m", i), Text: "hi", Mode: session.ModeCollect, ReplyTo: "hook", ReplyContext: json.RawMessage(fmt.Sprint(i))})
				expect.OK(t, err)
				b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task(fmt.Sprint("m", i))), "quiet", "1 100")
			}
			expect.Equal(t, "they are the next turn", b.Finish(h), true)
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: strings.Repeat("x", 250<<10)})
			expect.OK(t, err)
			list := records(b)
			expect.Equal(t, "records", len(list), routes)
			expect.Equal(t, "truncated", list[0].Data.Truncated, truncated)
		})
	}
}

// A deliverer that lost its lease to another one does not continue when that one has delivered the
// record.
func TestAckOfALostLease(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.SayAll("a", "b")
	b.Drain()
	take := func(lease time.Duration) deliveries.Delivery {
		taken, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}, lease)
		expect.OK(t, err)
		return taken.Deliveries[0]
	}
	first := take(5 * time.Millisecond)
	b.Pass(10 * time.Millisecond)
	second := take(time.Minute)
	for i, d := range []deliveries.Delivery{second, first} {
		ok, _, err := deliveries.Ack{Delivery: d, Verdict: deliveries.Delivered}.Do(b.Ctx, b.Redis)
		expect.OK(t, err)
		expect.Equal(t, "has the lease", ok, i == 0)
	}
}

// A deliverer may have a question after the head of a leased queue: it is closed, not removed.
func TestAQuestionBehindTheHeadIsClosed(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.SayAll("a", "b")
	h := b.Start()
	b.Finish(h)
	b.Asks(h, "run make")
	_, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, []deliveries.Line{{Destination: "hook", MaxAge: time.Hour}}, time.Minute)
	expect.OK(t, err)
	b.Command("/approve")
	expect.List(t, "records", recorded(b), "message.done a", "question.asked b", "question.closed b")
}

// A failure with a text that begins like a rollback's is not a rollback.
func TestAFailureIsNoRollback(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "rolled back: the disk is full"})
	expect.OK(t, err)
	expect.List(t, "records", recorded(b), "message.failed a")
}

// The promise for a message that an operator has deleted is kept, although another one has its ID
// now.
func TestAPromiseOutlivesItsID(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(b *actors.Bench){
		"a plain one": func(b *actors.Bench) { b.Enqueue("a") },
		"with another route": func(b *actors.Bench) {
			b.Redis.Del(b.Ctx, b.Keys.Idem("a"))
			_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: "a", Text: "b", ReplyTo: "other"})
			expect.OK(b, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
			b.Say("a")
			expect.OK(t, b.Inspector().DeleteTask("session:"+actors.Key, b.Task("a")))
			again(b)
			_, err := deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, nil, time.Minute)
			expect.OK(t, err)
			expect.List(t, "records", recorded(b), "message.stopped a")
			expect.Equal(t, "owed", b.Redis.HLen(b.Ctx, b.Keys.Owed()).Val(), map[string]int64{"with another route": 1}[name])
		})
	}
}

// The result of a dead letter is not that of its next run.
func TestAnEarlierResultIsNotDelivered(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	expect.OK(t, b.Client.Session(actors.Key).SetReplyTo(b.Ctx, "hook"))
	b.Say("a")
	_, err := b.Start().Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "why"})
	expect.OK(t, err)
	i, queue := b.Inspector(), "session:"+actors.Key
	expect.OK(t, i.RunTask(queue, b.Task("a")))
	b.Sweep()
	b.Claim()
	b.Die()
	b.Redis.Del(b.Ctx, b.Keys.Run()) // so it is of no turn, and goes back to the queue
	claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
	expect.OK(t, err)
	expect.Equal(t, "claims", len(claims), 0)
	expect.OK(t, i.ArchiveTask(queue, b.Task("a")))
	_, err = deliveries.TakeLines(b.Ctx, b.Redis, actors.Key, nil, time.Minute)
	expect.OK(t, err)
	expect.List(t, "records", recorded(b), "message.failed a", "message.stopped a")
}
