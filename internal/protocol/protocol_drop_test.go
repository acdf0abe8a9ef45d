package protocol_test

import (
	"strings"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A full line: what goes is in the archive with the reason, in an event, and
// whoever waits for it hears of it.
func TestDroppedMessagesAreTold(t *testing.T) {
	t.Parallel()
	for _, drop := range []session.DropPolicy{session.DropOld, session.DropSummarize} {
		t.Run(string(drop), func(t *testing.T) {
			t.Parallel()
			onceAndTwice(t, func(t *testing.T, b *bench) {
				b.say("a")
				h := b.start()
				b.sayAll("b", "c")
				waited := b.waitFor("b")
				r := b.say("d")
				expect.Equal(t, "receipt", string(r.Status), "queued")
				expect.Equal(t, "position", r.Position, 3)
				expect.List(t, "the line", b.waiting(), "c", "d")
				const why = "dropped: more than 2 messages were waiting"
				for _, o := range []session.Outcome{b.outcome("b"), <-waited} {
					expect.Equal(t, "its end", string(o.Status)+" "+o.Error, "dropped "+why)
				}
				info, err := b.inspector().GetTaskInfo(rediskey.Queue(key), b.task("b"))
				expect.OK(t, err)
				expect.Equal(t, "asynq's archive", info.State.String()+" "+info.LastErr, "archived "+why)
				events := b.told(session.EventTurnEnded, "b")
				expect.Equal(t, "events", len(events), 1)
				expect.Equal(t, "event's reason", events[0].Reason, string(drop))
				list, err := b.client.Followups(b.ctx, key)
				expect.OK(t, err)
				expect.Equal(t, "follow-ups", len(list), 2)
				expect.Equal(t, "the same id again", b.say("b").State, "archived")
				n, err := b.client.Rerun(b.ctx, key)
				expect.OK(t, err)
				expect.Equal(t, "run again by /resume", n, 0)
				want := 0
				if drop == session.DropSummarize {
					want = 1
				}
				expect.Equal(t, "lines for the next turn", b.info().Dropped, want)
				b.finish(h)
				expect.Equal(t, "lines for this turn", len(h.Turn().Dropped), want)
			}, line(session.QueueSettings{Cap: 2, Drop: drop}))
		})
	}
	t.Run("new", func(t *testing.T) {
		t.Parallel()
		onceAndTwice(t, func(t *testing.T, b *bench) {
			b.sayAll("a", "b", "c")
			b.start()
			r := b.say("d")
			expect.Equal(t, "receipt", string(r.Status)+" "+r.Reason, "refused full")
			expect.Equal(t, "stored", b.state("d"), "")
			expect.List(t, "the line", b.waiting(), "b", "c")
		}, line(session.QueueSettings{Cap: 2}))
	})
}

// What goes first by definition is not what goes.
func TestDropsSpareInterrupts(t *testing.T) {
	t.Parallel()
	b := newBench(t, line(session.QueueSettings{Cap: 2, Drop: session.DropOld}))
	b.say("a")
	b.start()
	b.say("b")
	b.say("now", session.ModeInterrupt)
	b.say("c")
	expect.List(t, "the line", b.waiting(), "now", "c")
	expect.Equal(t, "b", b.outcome("b").Status, session.StatusDropped)
}

// The lines of what was dropped are told until a turn that was told is done, and
// then not again.
func TestSummariesAreToldOnce(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		dropped := func(h *sq.Claim) string {
			t.Helper()
			past, err := h.History(b.ctx)
			expect.OK(t, err)
			return strings.Join(past.Dropped, " ")
		}
		b.say("a")
		h := b.start()
		b.sayAll("b", "c", "d")
		expect.Equal(t, "told while it runs", len(h.Turn().Dropped), 0)
		b.finish(h)
		expect.List(t, "the turn", group(h), "d")
		expect.Equal(t, "told", dropped(h), "b c")
		expect.OK(t, h.Promote(b.ctx))

		b.die()
		h = b.start()
		expect.Equal(t, "told again after a crash", dropped(h), "b c")
		expect.OK(t, h.Requeue(b.ctx, "drain"))
		h = b.start()
		expect.Equal(t, "and after a drain", dropped(h), "b c")
		b.say("e")
		b.say("f")
		_, err := h.Finish(b.ctx, sq.End{Status: session.StatusFailed, Error: "no"})
		expect.OK(t, err)
		expect.List(t, "the turn", group(h), "f")
		expect.Equal(t, "and after a failure, with what was dropped meanwhile", dropped(h), "b c e")

		expect.Equal(t, "goes on", b.finish(h), false)
		expect.Equal(t, "lines left", b.info().Dropped, 0)
		b.say("g")
		h = b.start()
		expect.Equal(t, "told to the turn after", dropped(h), "")
	}, line(session.QueueSettings{Cap: 1, Drop: session.DropSummarize}), func(c *sq.Config) { c.StuckLimit = 10 })
}

// Lines that come while a turn is told of others are the next turn's.
func TestSummariesMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, line(session.QueueSettings{Cap: 1, Drop: session.DropSummarize}))
	b.say("a")
	h := b.start()
	b.sayAll("b", "c")
	b.finish(h)
	expect.List(t, "the turn", group(h), "c")
	b.sayAll("d", "e")
	b.finish(h)
	expect.List(t, "the turn", group(h), "e")
	past, err := h.History(b.ctx)
	expect.OK(t, err)
	expect.List(t, "told", past.Dropped, "d")
	b.finish(h)
	expect.Equal(t, "lines left", b.info().Dropped, 0)
}
