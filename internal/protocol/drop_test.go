package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"turnstile"
	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/admin"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A full queue archives dropped messages, with the reason. An event reports it, and a waiting
// sender gets its outcome.
func TestDroppedMessagesAreReported(t *testing.T) {
	t.Parallel()
	for _, drop := range []session.DropPolicy{session.DropOld, session.DropSummarize} {
		t.Run(string(drop), func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("a")
				h := b.Start()
				b.SayAll("b", "c")
				waited := b.WaitFor("b")
				r := b.Say("d")
				expect.Equal(t, "receipt", string(r.Status), "queued")
				expect.Equal(t, "position", r.Position, 3)
				expect.List(t, "the line", b.Waiting(), "c", "d")
				const why = "dropped: more than 2 messages were waiting"
				for _, o := range []session.Outcome{b.Outcome("b"), <-waited} {
					expect.Equal(t, "its end", string(o.Status)+" "+o.Error, "dropped "+why)
				}
				info, err := b.Inspector().GetTaskInfo(rediskey.Queue(actors.Key), b.Task("b"))
				expect.OK(t, err)
				expect.Equal(t, "asynq's archive", info.State.String()+" "+info.LastErr, "archived "+why)
				events := eventsAbout(b, session.EventTurnEnded, "b")
				expect.Equal(t, "events", len(events), 1)
				expect.Equal(t, "event's reason", events[0].Reason, string(drop))
				list, err := b.Client.Operate(actors.Key).FollowUps(b.Ctx)
				expect.OK(t, err)
				expect.Equal(t, "follow-ups", len(list), 2)
				expect.Equal(t, "the same id again", b.Say("b").State, "archived")
				n, err := b.Client.Operate(actors.Key).Rerun(b.Ctx, admin.All)
				expect.OK(t, err)
				expect.Equal(t, "run again by /resume", n, 0)
				want := 0
				if drop == session.DropSummarize {
					want = 1
				}
				expect.Equal(t, "lines for the next turn", b.Info().Dropped, want)
				b.Finish(h)
				expect.Equal(t, "lines for this turn", len(h.Turn().Dropped), want)
			}, actors.Line(session.QueueSettings{Cap: 2, Drop: drop}))
		})
	}
	t.Run("new", func(t *testing.T) {
		t.Parallel()
		actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
			b.SayAll("a", "b", "c")
			b.Start()
			r := b.Say("d")
			expect.Equal(t, "receipt", string(r.Status)+" "+r.Reason, "refused full")
			expect.Equal(t, "stored", b.State("d"), "")
			expect.List(t, "the line", b.Waiting(), "b", "c")
		}, actors.Line(session.QueueSettings{Cap: 2}))
	})
}

// Messages that go first are not dropped.
func TestDropsSpareInterrupts(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.Line(session.QueueSettings{Cap: 2, Drop: session.DropOld}))
	b.Say("a")
	b.Start()
	b.Say("b")
	b.Say("now", session.ModeInterrupt)
	b.Say("c")
	expect.List(t, "the line", b.Waiting(), "now", "c")
	expect.Equal(t, "b", b.Outcome("b").Status, session.StatusDropped)
}

// Turns get the notes of dropped messages until a turn with them is done.
func TestSummariesAreGivenOnce(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		dropped := func(h *protocol.Claim) string {
			t.Helper()
			past, err := h.History(b.Ctx)
			expect.OK(t, err)
			return strings.Join(past.Dropped, " ")
		}
		b.Say("a")
		h := b.Start()
		b.SayAll("b", "c", "d")
		expect.Equal(t, "reported while it runs", len(h.Turn().Dropped), 0)
		b.Finish(h)
		expect.List(t, "the turn", actors.MessageIDs(h), "d")
		expect.Equal(t, "reported", dropped(h), "b c")
		expect.OK(t, h.Promote(b.Ctx))

		b.Die()
		h = b.Start()
		expect.Equal(t, "reported again after a crash", dropped(h), "b c")
		expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: "drain"}))
		h = b.Start()
		expect.Equal(t, "and after a drain", dropped(h), "b c")
		b.Say("e")
		b.Say("f")
		_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusFailed, Error: "no"})
		expect.OK(t, err)
		expect.List(t, "the turn", actors.MessageIDs(h), "f")
		expect.Equal(t, "and after a failure, with what was dropped meanwhile", dropped(h), "b c e")

		expect.Equal(t, "has a next turn", b.Finish(h), false)
		expect.Equal(t, "lines left", b.Info().Dropped, 0)
		b.Say("g")
		h = b.Start()
		expect.Equal(t, "reported to the turn after", dropped(h), "")
	}, actors.Line(session.QueueSettings{Cap: 1, Drop: session.DropSummarize}), func(c *protocol.Config) { c.StuckLimit = 10 })
}

// Lines that come while a turn has others are for the next turn.
func TestSummariesMeanwhile(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.Line(session.QueueSettings{Cap: 1, Drop: session.DropSummarize}))
	b.Say("a")
	h := b.Start()
	b.SayAll("b", "c")
	b.Finish(h)
	expect.List(t, "the turn", actors.MessageIDs(h), "c")
	b.SayAll("d", "e")
	b.Finish(h)
	expect.List(t, "the turn", actors.MessageIDs(h), "e")
	past, err := h.History(b.Ctx)
	expect.OK(t, err)
	expect.List(t, "reported", past.Dropped, "d")
	b.Finish(h)
	expect.Equal(t, "lines left", b.Info().Dropped, 0)
}

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
