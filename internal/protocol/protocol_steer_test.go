package protocol_test

import (
	"strings"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A steer is told of by the promotion if it came before, by a signal, and by every
// renewal until it was taken.
func TestSteerIsToldOf(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.claim()
	b.say("b", session.ModeSteer)
	expect.OK(t, h.Promote(b.ctx))
	expect.Equal(t, "told by the promotion", h.SteerWaits(), true)
	expect.Equal(t, "told by a renewal", b.c.Renew(b.ctx, []*sq.Claim{h})[0].Steer, true)
	taken, err := h.Steer(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "taken", len(taken), 1)
	expect.Equal(t, "told by a renewal", b.c.Renew(b.ctx, []*sq.Claim{h})[0].Steer, false)
	b.say("c", session.ModeSteer)
	expect.Equal(t, "told by a renewal", b.c.Renew(b.ctx, []*sq.Claim{h})[0].Steer, true)
	b.finish(h)
	expect.Equal(t, "told of the next turn", b.c.Renew(b.ctx, []*sq.Claim{h})[0].Steer, false)
	expect.OK(t, h.Promote(b.ctx))
	expect.Equal(t, "told by its promotion", h.SteerWaits(), false)
}

// What is steered in ends with its turn, however that ends.
func TestSteeredEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.say("a")
		h := b.start()
		b.say("b")
		b.say("c", session.ModeSteer)
		b.say("d", session.ModeSteer)
		taken, err := h.Steer(b.ctx)
		expect.OK(t, err)
		expect.Equal(t, "taken", len(taken), 2)
		expect.Equal(t, "in order", taken[0].Message.Text+taken[1].Message.Text, "cd")
		expect.List(t, "the line", b.waiting(), "b")
		again, err := h.Steer(b.ctx)
		expect.OK(t, err)
		expect.Equal(t, "taken again", len(again), 0)
		list, err := b.client.Followups(b.ctx, key)
		expect.OK(t, err)
		expect.Equal(t, "c's state", list[1].State, session.FollowupSteered)
		waited := b.waitFor("d")
		expect.Equal(t, "goes on", b.finish(h), true)
		for _, o := range []session.Outcome{b.outcome("c"), b.outcome("d"), <-waited} {
			expect.Equal(t, "its end", string(o.Status)+" "+o.Reply, "done re: a")
		}
		expect.List(t, "then", group(h), "b")
		b.finish(h)
		b.nothingLeft("at the end")
	})
}

// The answer to a steer is lost and never asked for again: the message is not.
func TestSteerWithoutItsAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	faults := &redistest.Faults{}
	b.rdb.AddHook(faults)
	b.say("a")
	h := b.start()
	b.say("b", session.ModeSteer)
	faults.LoseReply(called("steer"), 1)
	taken, err := h.Steer(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "taken by the repetition", len(taken), 1)
	b.finish(h)
	expect.Equal(t, "its end", b.outcome("b").Status, session.StatusDone)
}

// What the agent did not take has its old place in the line, as if it had never
// been offered: behind what came before, and behind those that go first.
func TestUntakenSteerKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		modes []session.Mode // of b, c, d ..., said while a runs; the steers are offered
		want  string
	}{
		"alone":                 {[]session.Mode{"steer"}, "b"},
		"before another":        {[]session.Mode{"steer", "queue"}, "bc"},
		"behind another":        {[]session.Mode{"queue", "steer"}, "bc"},
		"among others":          {[]session.Mode{"queue", "steer", "queue", "steer", "steer", "queue"}, "bcdefg"},
		"with an interrupt":     {[]session.Mode{"steer", "queue", "interrupt"}, "dbc"},
		"with a rollback":       {[]session.Mode{"queue", "steer", "rollback"}, "dbc"},
		"between the collected": {[]session.Mode{"collect", "steer", "collect"}, "bcd"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onceAndTwice(t, func(t *testing.T, b *bench) {
				b.say("a")
				h := b.start()
				var untaken []string
				for i, mode := range c.modes {
					id := string(rune('b' + i))
					b.say(id, mode)
					if mode == session.ModeSteer {
						untaken = append(untaken, id)
					}
					if mode == session.ModeCollect {
						b.windowsEnd(id)
					}
				}
				_, err := h.Steer(b.ctx)
				expect.OK(t, err)
				end := b.done(h)
				end.Untaken = untaken
				more, err := h.Finish(b.ctx, end)
				expect.OK(t, err)
				expect.List(t, "what a's end names", b.told(session.EventTurnEnded, "a")[0].Messages, "a")
				var ran []string
				for more {
					ran = append(ran, group(h)...)
					expect.Equal(t, "redelivered", h.Turn().Redelivered, 0)
					more = b.finish(h)
				}
				ran = append(ran, b.drain()...)
				expect.Equal(t, "order", strings.Join(ran, ""), c.want)
				b.nothingLeft("at the end")
			})
		})
	}
}

// A turn with steers that dies comes back message by message, each once.
func TestSteeredTurnDies(t *testing.T) {
	t.Parallel()
	onceAndTwice(t, func(t *testing.T, b *bench) {
		b.say("a")
		h := b.start()
		sid := h.Turn().SessionID
		b.say("b")
		b.say("c", session.ModeSteer)
		_, err := h.Steer(b.ctx)
		expect.OK(t, err)
		expect.OK(t, h.Checkpoint(b.ctx, []session.Entry{
			{Role: session.RoleUser, Text: "a", Turn: h.Turn().ID}, {Role: session.RoleUser, Text: "c", Turn: h.Turn().ID},
		}))
		b.die()
		expect.List(t, "runs", b.drain(), "a", "c", "b")
		expect.List(t, "transcript", b.transcript(sid), "a", "re: a", "c", "re: c", "b", "re: b")
		b.nothingLeft("at the end")
	})
}
