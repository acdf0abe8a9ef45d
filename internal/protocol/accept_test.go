package protocol_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
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

// After a retry a session's messages take the fast paths again.
func TestFastPathAfterARetry(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	expect.OK(t, b.Start().Park(b.Ctx, protocol.Parking{Failed: errors.New("no"), Wait: time.Millisecond}))
	expect.Soon(t, "the end of the backoff", func() bool {
		claims, err := b.Worker.Claim(b.Ctx, []string{actors.Key})
		expect.OK(t, err)
		if len(claims) == 1 {
			b.Finish(claims[0])
		}
		return len(claims) == 1
	})
	b.Say("b")
	b.Drain()
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	for _, full := range []string{"accept", "claim", "finish"} {
		faults.FailBefore(actors.FullPath(full), -1, errors.New("the full path is taken"))
	}
	b.Say("c")
	expect.Equal(t, "has a next turn", b.Finish(b.Claim()), false)
}

// A repeated Send leaves a waiting message's quiet window as it is.
func TestRepeatedSendLeavesTheQuietWindow(t *testing.T) {
	t.Parallel()
	for name, running := range map[string]bool{"behind a turn": true, "in an idle session": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.Line.Debounce = session.Millis(time.Hour) })
			b.Say("now")
			var h *protocol.Claim
			if running {
				h = b.Start()
			}
			b.Say("x", session.ModeCollect)
			window := func() string { return b.Redis.HGet(b.Ctx, b.Keys.Task(b.Task("x")), "quiet").Val() }
			was := window()
			if was == "" {
				t.Fatal("x does not wait for more")
			}
			if running {
				_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Release: true})
				expect.OK(t, err)
				b.Say("other", session.ModeCollect) // it waits, too
			}
			said := b.Redis.Time(b.Ctx).Val().UnixMilli()
			expect.Soon(t, "another ms, in which a new window would be another", func() bool {
				return b.Redis.Time(b.Ctx).Val().UnixMilli() > said
			})
			b.Say("x", session.ModeCollect)
			expect.Equal(t, "quiet window", window(), was)
		})
	}
}

// A queue of one message has no room next to a delayed one.
func TestLineOfOneCountsDelayedMessages(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	client := actors.NewClientWith(b.Redis, turnstile.ClientConfig{Limits: session.Limits{Queue: 1}})
	_, err := receipt.Input(b.Ctx, client.Session(actors.Key), turnstile.Message{ID: "later", Text: "later", Delay: time.Hour})
	expect.OK(t, err)
	r, err := receipt.Input(b.Ctx, client.Session(actors.Key), turnstile.Message{ID: "a", Text: "a"})
	expect.OK(t, err)
	expect.Equal(t, "status", r.Status, receipt.Refused)
	expect.Equal(t, "reason", r.Reason, "line")
}

// The age of an asynq.Client's message counts from its turn: expires_in does not include its wait
// in the queue.
func TestAgeOfAPlainMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Enqueue("plain")
	b.Say("sent")
	long := time.Now().Add(-time.Hour).UnixMilli()
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("plain")), "pending_since", long*1e6).Err())
	expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("sent")), "seen", long).Err())
	h := b.Start()
	expect.Equal(t, "age of the plain one", h.Turn().Age, 0)
	b.Finish(h)
	if age := h.Turn().Age; age < time.Hour {
		t.Errorf("age of the sent one: %s", age)
	}
}

// An asynq.Client's message waits in the queue, whatever its mode: accept applies the modes.
func TestModeOfAPlainMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	var want []string
	for _, mode := range []session.Mode{session.ModeInterrupt, session.ModeRollback, session.ModeReject, session.ModeCollect, session.ModeCollect, session.ModeSteer} {
		id := b.Task(string(mode) + string(rune('0'+len(want))))
		b.EnqueueTask(wire.TaskType, `{"v":1,"text":"x","mode":"`+string(mode)+`"}`, id)
		want = append(want, id)
	}
	r := b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0]
	if r.Requested != nil || r.Steer || r.Waiting != len(want) {
		t.Errorf("renewal: %+v", r)
	}
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	for i, id := range want {
		turn := h.Turn()
		expect.Equal(t, "message", b.Task(turn.Message.ID), id)
		expect.Equal(t, "messages of its turn", len(turn.Messages()), 1)
		expect.Equal(t, "has a next turn", b.Finish(h), i < len(want)-1)
	}
}
