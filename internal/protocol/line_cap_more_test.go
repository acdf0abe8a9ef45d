package protocol_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// The cap holds while a turn runs, too, for whatever goes first as well; and a receipt
// says it as an error.
func TestLineCapOfARunningSession(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 2)
	b.Say("a")
	h := b.Start()
	b.SayAll("b", "c")
	for _, mode := range []session.Mode{session.ModeQueue, session.ModeCollect, session.ModeSteer, session.ModeInterrupt, session.ModeRollback} {
		r := b.Say("over", mode)
		expect.Equal(t, string(mode), string(r.Status)+" "+r.Reason, "refused line")
		expect.Equal(t, "as an error", errors.Is(r.Err(), turnstile.ErrLineFull), true)
	}
	if r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]; r.Requested != nil {
		t.Errorf("the turn is asked %v", r.Requested)
	}
	expect.Equal(t, "a rejected one", b.Say("r", session.ModeReject).Reason, "busy")
	b.Finish(h)
	expect.Equal(t, "there is room again", b.Say("d").Status, turnstile.Queued)
	expect.Equal(t, "no error", b.Say("d").Err(), nil)
}

// Where the oldest are dropped there is room for the newest.
func TestLineCapBesideADropPolicy(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 2, func(c *protocol.Config) { c.Line.Cap, c.Line.Drop = 2, "old" })
	b.Say("a")
	b.Start()
	b.SayAll("b", "c", "d")
	expect.List(t, "the line", b.Waiting(), "c", "d")
}

// Delayed messages count, and have a half of the line at most.
func TestDelayedMessagesCount(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 4)
	delayed := func(id string) string {
		r, err := b.Client.Submit(b.Ctx, actors.Key, session.Message{ID: id, Text: id}, turnstile.Delay(time.Hour))
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

// A repeated ring is no second message: it is told what the first was.
func TestLineCapOfARepetition(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Client = actors.NewClientWith(b.Redis, turnstile.ClientConfig{LineCap: 2})
		expect.Equal(t, "first", b.Say("a").Status, turnstile.Accepted)
		expect.Equal(t, "second", b.Say("b").Status, turnstile.Accepted)
		expect.Equal(t, "third", b.Say("c").Reason, "line")
		expect.Equal(t, "delayed", b.Say("c").Reason, "line")
		expect.List(t, "the line", b.Waiting(), "a", "b")
	})
}

// What a turn gives back is not archived because the line is full.
func TestTrimLeavesWhatATurnGivesBack(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 2)
	b.Say("a")
	h := b.Start()
	b.SayAll("b", "c")
	expect.OK(t, h.Requeue(b.Ctx, "drain"))
	b.TrimAll()
	expect.List(t, "the line", b.Waiting(), "a", "b", "c")
	b.Enqueue("plain")
	b.TrimAll()
	expect.List(t, "the line", b.Waiting(), "a", "b", "c")
	expect.Equal(t, "plain", b.Outcome("plain").Status, session.StatusDropped)
}

// Messages that are run again go in as far as there is room.
func TestRerunIntoAFullLine(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 3)
	b.SayAll("a", "b", "c")
	_, err := b.Client.Stop(b.Ctx, actors.Key)
	expect.OK(t, err)
	b.SayAll("d", "e")
	n, err := b.Client.Rerun(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "run again", n, 1)
	expect.List(t, "the line", b.Waiting(), "d", "e", "a")
	b.Drain()
	n, err = b.Client.Rerun(b.Ctx, actors.Key)
	expect.OK(t, err)
	expect.Equal(t, "then", n, 2)
}

// Delayed messages of plain producers are archived too, those first that are due last;
// also while the session is run, and whatever index it is in.
func TestTrimOfDelayedMessages(t *testing.T) {
	t.Parallel()
	b := actors.NewBenchWithCap(t, 1)
	b.Say("a")
	b.Start()
	for i := range 5 {
		b.Enqueue(fmt.Sprint("d", i), asynq.ProcessIn(time.Duration(i+1)*time.Hour))
	}
	b.TrimAll()
	expect.Equal(t, "waiting", b.Redis.ZCard(b.Ctx, b.Keys.Scheduled()).Val(), 2)
	for i := range 5 {
		want := map[bool]string{true: "scheduled", false: "archived"}[i < 2]
		expect.Equal(t, fmt.Sprint("d", i), b.State(fmt.Sprint("d", i)), want)
	}
}
