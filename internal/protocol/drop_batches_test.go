package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// filled is a session in mid-turn with a queue of n, far beyond its present cap.
func filled(t *testing.T, n int, s session.QueueSettings) *actors.Bench {
	t.Helper()
	b := actors.NewBench(t)
	b.Say("now")
	for i := range n {
		b.Say(fmt.Sprint("m", i)) // nothing runs, so no cap applies
	}
	b.Start()
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, s))
	return b
}

// A message drops at most a batch from a queue that is far too long, the oldest first, and asynq
// counts each. The next messages drop the rest.
func TestDropsInBatches(t *testing.T) {
	t.Parallel()
	b := filled(t, 230, session.QueueSettings{Cap: 10, Drop: session.DropOld})
	for _, c := range []struct{ left, oldest int }{{131, 100}, {32, 200}, {10, 224}} {
		r := b.Say(fmt.Sprint("new", c.left))
		expect.Equal(t, "receipt", r.Status, receipt.Queued)
		expect.Equal(t, "position", r.Position, c.left+1)
		waiting := b.Waiting()
		expect.Equal(t, "wait", len(waiting), c.left)
		if want := fmt.Sprint("m", c.oldest); c.oldest < 224 {
			expect.Equal(t, "the oldest", waiting[0], want)
		}
	}
	expect.Equal(t, "the newest", b.Waiting()[9], "new10")
	dropped := 230 + 3 - 10
	expect.Equal(t, "dead letters", b.Info().DeadLetters, dropped)
	expect.Equal(t, "asynq's failed", b.Redis.Get(b.Ctx, b.Keys.Failed()).Val(), fmt.Sprint(dropped))
	expect.Equal(t, "asynq's processed", b.Redis.Get(b.Ctx, b.Keys.Processed()).Val(), fmt.Sprint(dropped))
}

// With large messages a batch is 4 MiB.
func TestDropsInBatchesOfBytes(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	text := strings.Repeat("x", 1<<20)
	for i := range 10 {
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{ID: fmt.Sprint("m", i), Text: text})
		expect.OK(t, err)
	}
	b.Start()
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 1, Drop: session.DropSummarize}))
	b.Say("new")
	expect.List(t, "the line", b.Waiting(), "m4", "m5", "m6", "m7", "m8", "m9", "new")
}

// A message searches no further than a batch past those that go first, and is queued after them.
func TestDropsLookNoFurther(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	b.SayAll("m1", "m2")
	b.Start()
	const urgent = 102
	for i := range urgent {
		b.Say(fmt.Sprint("first", i), session.ModeInterrupt)
	}
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 1, Drop: session.DropOld}))
	expect.Equal(t, "position", b.Say("new").Position, 1+urgent+3)
	expect.Equal(t, "dead letters", b.Info().DeadLetters, 0)
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: urgent, Drop: session.DropOld}))
	expect.Equal(t, "position", b.Say("newer").Position, 1+urgent+4)

	// With fewer of them it finds one that can be dropped.
	for i := range 4 {
		expect.OK(t, b.Inspector().DeleteTask("session:"+actors.Key, b.Task(fmt.Sprint("first", 101-i))))
	}
	expect.OK(t, b.Client.Session(actors.Key).SetQueue(b.Ctx, session.QueueSettings{Cap: 1, Drop: session.DropOld}))
	b.Say("newest")
	expect.List(t, "behind them", b.Waiting()[urgent-4:], "newer", "newest")
	expect.Equal(t, "dead letters", b.Info().DeadLetters, 3)
}

// A message that went first loses that right when its turn requeues it.
func TestDropsWhatCameBack(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.Line(session.QueueSettings{Cap: 1, Drop: session.DropOld}))
	b.Say("now")
	h := b.Start()
	b.Say("first", session.ModeInterrupt)
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusInterrupted, Release: true})
	expect.OK(t, err)
	expect.OK(t, b.Start().Requeue(b.Ctx, "drain"))
	expect.Equal(t, "says so", b.Redis.HExists(b.Ctx, b.Keys.Task(b.Task("first")), "first").Val(), false)
}
