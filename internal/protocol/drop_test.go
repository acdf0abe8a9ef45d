package protocol_test

import (
	"strings"
	"testing"

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
		expect.OK(t, h.Requeue(b.Ctx, "drain"))
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
