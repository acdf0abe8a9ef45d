package protocol_test

import (
	"fmt"
	"testing"

	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A message that a /stop archived stays archived if its sender repeats the request, whatever its
// mode.
func TestAcceptOfAStoppedMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	b.Start()
	b.Say("first")
	b.Enqueue("new")
	expect.OK(t, stopInPart(b))
	expect.List(t, "the line", b.Waiting())
	expect.OK(t, accept(b, "new", session.ModeInterrupt))
	expect.List(t, "the line", b.Waiting())
	_, err := b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "its end", b.Outcome("new").Status, session.StatusStopped)
	expect.Equal(t, "asked of the turn", b.Redis.HGet(b.Ctx, b.Keys.Run(), "interrupt").Val(), "")
}

// Accept finds a message again only near the queue's end. Farther away it reports the place that
// the message had when it came.
func TestAcceptLongAfterTheEnqueue(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	b.SayAll("m1", "m2")
	b.Start()
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 10_000}))
	expect.Equal(t, "position", b.Say("old").Position, 4)
	expect.OK(t, b.Inspector().DeleteTask("session:"+actors.Key, b.Task("m1")))
	expect.Equal(t, "again", b.Say("old").Position, 3)
	behind := make([]any, 1000)
	for i := range behind {
		behind[i] = b.Task(fmt.Sprint("gone", i))
	}
	expect.OK(t, b.Redis.LPush(b.Ctx, b.Keys.Pending(), behind...).Err())
	r := b.Say("old")
	expect.Equal(t, "behind it many", fmt.Sprint(r.Status, r.State, r.Position), "duplicatepending4")

	// It was enqueued by a plain producer, and its mode is interrupt: it stays where it is.
	b.Enqueue("plain")
	expect.OK(t, b.Redis.LPush(b.Ctx, b.Keys.Pending(), behind...).Err())
	expect.Equal(t, "line", len(b.Waiting()), 2003)
	expect.OK(t, accept(b, "plain", session.ModeInterrupt))
	expect.Equal(t, "its place", b.Waiting()[1002], "plain")
	expect.Equal(t, "asked of the turn", b.Redis.HGet(b.Ctx, b.Keys.Run(), "interrupt").Val(), "")
}
