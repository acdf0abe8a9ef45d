package protocol_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Second invariant: retries, drains and crashes keep the order.
func TestRetriesDrainsAndCrashesKeepTheOrder(t *testing.T) {
	t.Parallel()
	back := map[string]func(b *bench, h *sq.Claim){
		"retry": func(b *bench, h *sq.Claim) { expect.OK(b, h.Retry(b.ctx, errors.New("flaky"), 0)) },
		"retry and wait": func(b *bench, h *sq.Claim) {
			expect.OK(b, h.Retry(b.ctx, errors.New("flaky"), 20*time.Millisecond))
			b.rdb.Del(b.ctx, rediskey.Ready)
			b.claimNothing("the head has to wait")
			expect.Soon(b, "the wait's end", func() bool { b.due(); return b.isIn(rediskey.Ready, key) })
		},
		"requeue": func(b *bench, h *sq.Claim) { expect.OK(b, h.Requeue(b.ctx, "drain")) },
		"crash":   func(b *bench, _ *sq.Claim) { b.die() },
	}
	for name, f := range back {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.sayAll("a", "b", "c")
			h := b.start()
			b.finish(h) // b runs
			expect.OK(t, h.Promote(b.ctx))
			b.say("d")
			f(b, h)
			b.say("e")
			h = b.claim()
			expect.Equal(t, "comes first", h.Turn().Message.ID, "b")
			failed := name == "retry" || name == "retry and wait"
			expect.Equal(t, "attempt", h.Turn().Attempt, map[bool]int{true: 2, false: 1}[failed])
			expect.Equal(t, "redelivered", h.Turn().Redelivered, map[bool]int{true: 0, false: 1}[failed])
			expect.Equal(t, "resume mark", h.Turn().Resume, map[string]string{"crash": "crash", "requeue": "drain"}[name])
			b.finish(h)
			for _, id := range []string{"c", "d"} {
				expect.Equal(t, "then", h.Turn().Message.ID, id)
				b.finish(h)
			}
			expect.Equal(t, "last", h.Turn().Message.ID, "e")
			expect.Equal(t, "more", b.finish(h), false)
			expect.List(t, "transcript", b.transcript(h.Turn().SessionID), "a", "re: a", "b", "re: b", "c", "re: c", "d", "re: d", "e", "re: e")
		})
	}
}

// Delayed messages of one second come in the order of their enqueueing, whatever
// their ids, and behind what waits.
func TestOrderOfDelayedMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	delayed := []string{"z", "m", "a", "k"}
	for _, id := range delayed {
		r, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: id}, turnstile.Delay(time.Hour))
		expect.OK(t, err)
		expect.Equal(t, "status", r.Status, turnstile.Scheduled)
		if until := time.Until(r.At); until < 59*time.Minute || until > 61*time.Minute {
			t.Errorf("due in %s", until)
		}
	}
	b.claimNothing("all are delayed")
	if !b.isIn(rediskey.Due, key) || b.isIn(rediskey.Ready, key) {
		t.Error("a delayed message's session belongs into due, not into ready")
	}
	_, err := b.client.Submit(b.ctx, key, session.Message{ID: "first", Text: "x"}, turnstile.Delay(2*time.Hour))
	expect.OK(t, err)
	at := float64(time.Now().Unix() - 10)
	for _, id := range append(delayed, "first") {
		b.rdb.ZAddXX(b.ctx, b.k.Scheduled(), redis.Z{Score: at, Member: b.task(id)})
	}
	b.rdb.ZAddXX(b.ctx, b.k.Scheduled(), redis.Z{Score: at - 5, Member: b.task("first")})
	b.say("waiting")
	expect.List(t, "order", b.drain(), "waiting", "first", "z", "m", "a", "k")
}

// A delayed message that becomes due while its session runs joins the line.
func TestDelayedMessageJoinsAtFinish(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	b.delayed("b")
	expect.Equal(t, "goes on", b.finish(h), true)
	expect.Equal(t, "with", h.Turn().Message.ID, "b")
	if age := h.Turn().Age; age > time.Second {
		t.Errorf("a delayed message's age counts from its time, not %s", age)
	}
}

func TestInterruptGoesFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	h := b.start()
	r := b.say("urgent", session.ModeInterrupt)
	expect.Equal(t, "position", r.Position, 2)
	expect.Equal(t, "duplicate's position", b.say("urgent", session.ModeInterrupt).Position, 2)
	// A second one: the newest comes first.
	expect.Equal(t, "position of another", b.say("more-urgent", session.ModeInterrupt).Position, 2)
	if err := h.Requeue(b.ctx, "drain"); !errors.Is(err, sq.ErrInterruptRequested) {
		t.Errorf("requeue of an interrupted turn: %v", err)
	}
	more, err := h.Finish(b.ctx, sq.End{Status: session.StatusInterrupted, Entries: []session.Entry{{Text: "half", Interrupted: true}}})
	expect.OK(t, err)
	expect.Equal(t, "goes on", more, true)
	expect.Equal(t, "with", h.Turn().Message.ID, "more-urgent")
	expect.Equal(t, "status", b.outcome("a").Status, session.StatusInterrupted)
	if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; r.Requested != nil {
		t.Errorf("the next turn is asked %v", r.Requested)
	}
	b.finish(h)
	expect.Equal(t, "then", h.Turn().Message.ID, "urgent")
	b.finish(h)
	expect.Equal(t, "then", h.Turn().Message.ID, "b")
	b.finish(h)
}

func TestInterruptOfAnIdleSessionIsAMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	expect.Equal(t, "status", b.say("b", session.ModeInterrupt).Status, turnstile.Accepted)
	expect.List(t, "order", b.drain(), "a", "b")
}

// What a message is refused with, and that nothing else is removed.
func TestRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.Line.Cap = 2 })
	b.say("a")
	h := b.start()
	r := b.say("no", session.ModeReject)
	expect.Equal(t, "status", r.Status, turnstile.Refused)
	expect.Equal(t, "reason", r.Reason, "busy")
	expect.Equal(t, "stored", b.state("no"), "")

	b.sayAll("b", "c")
	r = b.say("d")
	expect.Equal(t, "status", r.Status, turnstile.Refused)
	expect.Equal(t, "reason", r.Reason, "full")
	expect.Equal(t, "stored", b.state("d"), "")
	expect.List(t, "the line", b.waiting(), "b", "c")

	// Another sender's message under the same id stays, although it is over the cap.
	b.enqueue("e")
	r = b.say("e", session.ModeReject)
	expect.Equal(t, "status", r.Status, turnstile.Duplicate)
	expect.List(t, "the line", b.waiting(), "b", "c", "e")

	list, err := b.client.Followups(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "follow-ups", len(list), 3)
	for b.finish(h) {
	}
	expect.Equal(t, "now", b.say("no", session.ModeReject).Status, turnstile.Accepted)
}

// What is refused leaves nothing behind that grows, however long the turn.
func TestRefusalsDoNotPileUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	for i := range 150 {
		b.say(fmt.Sprint("no", i), session.ModeReject)
	}
	b.say("b")
	b.finish(h)
	if n := b.rdb.HLen(b.ctx, b.k.Followups()).Val(); n > 100 {
		t.Errorf("%d entries are kept for refused messages", n)
	}
}

// A follow-up of a worker whose default is to reject, interrupt.
func TestBusyModeOfTheWorker(t *testing.T) {
	t.Parallel()
	for _, mode := range []session.Mode{session.ModeReject, session.ModeInterrupt} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.Line.Mode = mode })
			b.sayAll("a", "b")
			h := b.start()
			r := b.say("c")
			if mode == session.ModeReject {
				expect.Equal(t, "status", r.Status, turnstile.Refused)
			} else {
				expect.Equal(t, "position", r.Position, 2)
				if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; !errors.Is(r.Requested, sq.ErrInterruptRequested) {
					t.Errorf("asked: %v", r.Requested)
				}
			}
			expect.Equal(t, "a message's own mode", b.say("d", session.ModeQueue).Status, turnstile.Queued)
		})
	}
}

// Ids in the line whose task is gone are passed over, and do not keep a session
// awake for ever.
func TestHeadOfTheLineIsGone(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1} {
		for _, at := range []string{"claim", "finish"} {
			t.Run(fmt.Sprintf("%s/%d others", at, others), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.say("first")
				h := b.start()
				b.sayAll("gone1", "gone2")
				if others > 0 {
					b.say("there")
				}
				b.rdb.Del(b.ctx, b.k.Task(b.task("gone1")), b.k.Task(b.task("gone2")))
				if at == "claim" {
					expect.OK(t, h.Requeue(b.ctx, "drain"))
					b.rdb.Del(b.ctx, b.k.Task(b.task("first")))
				} else {
					b.finish(h)
					if others > 0 {
						expect.Equal(t, "next", h.Turn().Message.ID, "there")
						b.finish(h)
					}
				}
				b.drain()
				if others > 0 {
					expect.Equal(t, "status", b.outcome("there").Status, session.StatusDone)
				}
				expect.List(t, "what is left in the line", b.waiting())
				b.rdb.Del(b.ctx, rediskey.Ready, rediskey.Due)
				expect.Equal(t, "woken again", b.sweep(), 0)
			})
		}
	}
}

// A delayed id without a task does not keep its session awake either.
func TestDelayedMessageIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.delayed("gone")
	b.rdb.Del(b.ctx, b.k.Task(b.task("gone")), rediskey.Due, rediskey.Ready)
	expect.List(t, "runs", b.drain())
	expect.Equal(t, "scheduled", b.rdb.ZCard(b.ctx, b.k.Scheduled()).Val(), 0)
}
