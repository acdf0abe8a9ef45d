package protocol_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// narrow is a bench whose senders and worker have a line of that length.
func narrow(t *testing.T, n int, changes ...setup) *bench {
	t.Helper()
	b := newBench(t, append(changes, func(c *sq.Config) { c.LineCap, c.TurnMessages = n, 1 })...)
	b.client = actors.NewClientWith(b.rdb, turnstile.ClientConfig{LineCap: n})
	return b
}

// The cap holds while a turn runs, too, for whatever goes first as well; and a receipt
// says it as an error.
func TestLineCapOfARunningSession(t *testing.T) {
	t.Parallel()
	b := narrow(t, 2)
	b.say("a")
	h := b.start()
	b.sayAll("b", "c")
	for _, mode := range []session.Mode{session.ModeQueue, session.ModeCollect, session.ModeSteer, session.ModeInterrupt, session.ModeRollback} {
		r := b.say("over", mode)
		expect.Equal(t, string(mode), string(r.Status)+" "+r.Reason, "refused line")
		expect.Equal(t, "as an error", errors.Is(r.Err(), turnstile.ErrLineFull), true)
	}
	if r := b.c.Renew(b.ctx, []*sq.Claim{h})[0]; r.Requested != nil {
		t.Errorf("the turn is asked %v", r.Requested)
	}
	expect.Equal(t, "a rejected one", b.say("r", session.ModeReject).Reason, "busy")
	b.finish(h)
	expect.Equal(t, "there is room again", b.say("d").Status, turnstile.Queued)
	expect.Equal(t, "no error", b.say("d").Err(), nil)
}

// Where the oldest are dropped there is room for the newest.
func TestLineCapBesideADropPolicy(t *testing.T) {
	t.Parallel()
	b := narrow(t, 2, func(c *sq.Config) { c.Line.Cap, c.Line.Drop = 2, "old" })
	b.say("a")
	b.start()
	b.sayAll("b", "c", "d")
	expect.List(t, "the line", b.waiting(), "c", "d")
}

// Delayed messages count, and have a half of the line at most.
func TestDelayedMessagesCount(t *testing.T) {
	t.Parallel()
	b := narrow(t, 4)
	delayed := func(id string) string {
		r, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: id}, turnstile.Delay(time.Hour))
		expect.OK(t, err)
		return string(r.Status) + " " + r.Reason
	}
	expect.Equal(t, "first", delayed("d1"), "scheduled ")
	expect.Equal(t, "second", delayed("d2"), "scheduled ")
	expect.Equal(t, "third", delayed("d3"), "refused line")
	expect.Equal(t, "stored", b.state("d3"), "")
	expect.Equal(t, "waiting", b.rdb.ZCard(b.ctx, b.k.Scheduled()).Val(), 2)
	b.sayAll("a", "b")
	expect.Equal(t, "a third", b.say("c").Reason, "line")
	b.backdate("d1")
	expect.Equal(t, "once it has joined", b.say("c").Reason, "line")
}

// A repeated ring is no second message: it is told what the first was.
func TestLineCapOfARepetition(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.client = actors.NewClientWith(b.rdb, turnstile.ClientConfig{LineCap: 2})
		expect.Equal(t, "first", b.say("a").Status, turnstile.Accepted)
		expect.Equal(t, "second", b.say("b").Status, turnstile.Accepted)
		expect.Equal(t, "third", b.say("c").Reason, "line")
		expect.Equal(t, "delayed", b.say("c").Reason, "line")
		expect.List(t, "the line", b.waiting(), "a", "b")
	})
}

// What a turn gives back is not archived because the line is full.
func TestTrimLeavesWhatATurnGivesBack(t *testing.T) {
	t.Parallel()
	b := narrow(t, 2)
	b.say("a")
	h := b.start()
	b.sayAll("b", "c")
	expect.OK(t, h.Requeue(b.ctx, "drain"))
	b.trimAll()
	expect.List(t, "the line", b.waiting(), "a", "b", "c")
	b.enqueue("plain")
	b.trimAll()
	expect.List(t, "the line", b.waiting(), "a", "b", "c")
	expect.Equal(t, "plain", b.outcome("plain").Status, session.StatusDropped)
}

// Messages that are run again go in as far as there is room.
func TestRerunIntoAFullLine(t *testing.T) {
	t.Parallel()
	b := narrow(t, 3)
	b.sayAll("a", "b", "c")
	_, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	b.sayAll("d", "e")
	n, err := b.client.Rerun(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "run again", n, 1)
	expect.List(t, "the line", b.waiting(), "d", "e", "a")
	b.drain()
	n, err = b.client.Rerun(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "then", n, 2)
}

// Delayed messages of plain producers are archived too, those first that are due last;
// also while the session is run, and whatever index it is in.
func TestTrimOfDelayedMessages(t *testing.T) {
	t.Parallel()
	b := narrow(t, 1)
	b.say("a")
	b.start()
	for i := range 5 {
		b.enqueue(fmt.Sprint("d", i), asynq.ProcessIn(time.Duration(i+1)*time.Hour))
	}
	b.trimAll()
	expect.Equal(t, "waiting", b.rdb.ZCard(b.ctx, b.k.Scheduled()).Val(), 2)
	for i := range 5 {
		want := map[bool]string{true: "scheduled", false: "archived"}[i < 2]
		expect.Equal(t, fmt.Sprint("d", i), b.state(fmt.Sprint("d", i)), want)
	}
}
