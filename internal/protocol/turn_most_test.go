package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func turnOf(messages, bytes int) setup {
	return func(c *sq.Config) { c.TurnMessages, c.TurnBytes = messages, bytes }
}

// What is collected beyond what a turn holds is the next turn, also if its quiet window
// is not over: whoever is full waits for no more.
func TestCollectedTurnHasItsLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		limits setup
		text   string
		want   string
	}{
		"in messages":       {turnOf(3, 1<<20), "", "bcd ef g"},
		"in bytes":          {turnOf(500, 3000), long, "bc de f g"},
		"one that is long":  {turnOf(500, 10), long, "b c d e f g"},
		"as many as it has": {turnOf(5, 1<<20), "", "bcdef g"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onceAndTwice(t, func(t *testing.T, b *bench) {
				b.say("a")
				h := b.start()
				for _, id := range []string{"b", "c", "d", "e", "f"} {
					_, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: id + c.text, Mode: session.ModeCollect})
					expect.OK(t, err)
				}
				b.windowsEnd("b", "c", "d", "e", "f")
				b.say("g")
				var ran []string
				for more := b.finish(h); more; more = b.finish(h) {
					ran = append(ran, strings.Join(group(h), ""))
				}
				expect.Equal(t, "turns", strings.Join(ran, " "), c.want)
				b.nothingLeft("at the end")
			}, c.limits, line(session.QueueSettings{Cap: 100}))
		})
	}
	t.Run("a full turn waits for no more", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, turnOf(2, 1<<20), line(session.QueueSettings{Cap: 100}))
		b.say("a")
		h := b.start()
		b.say("b", session.ModeCollect)
		_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Release: true})
		expect.OK(t, err)
		b.claimNothing("its window is open")
		b.say("c", session.ModeCollect)
		expect.List(t, "the next turn", group(b.claim()), "b", "c")
	})
}

// What is to be steered in beyond what a turn holds waits for a turn of its own, and
// nobody asks for it again and again.
func TestSteeredTurnHasItsLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits setup
		want   int
	}{
		"in messages": {turnOf(3, 1<<20), 2},
		"in bytes":    {turnOf(500, 2500), 2}, // of some 1,150 each
		"of one":      {turnOf(1, 1<<20), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onceAndTwice(t, func(t *testing.T, b *bench) {
				b.say("a")
				h := b.start()
				var left []string
				for i := range 5 {
					id := fmt.Sprint("s", i)
					_, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: strings.Repeat("x", 1000), Mode: session.ModeSteer})
					expect.OK(t, err)
					if i >= c.want {
						left = append(left, id)
					}
				}
				taken, err := h.Steer(b.ctx)
				expect.OK(t, err)
				expect.Equal(t, "taken", len(taken), c.want)
				expect.Equal(t, "there is more", h.SteerWaits(), false)
				expect.List(t, "the line", b.waiting(), left...)
				again, err := h.Steer(b.ctx)
				expect.OK(t, err)
				expect.Equal(t, "taken again", len(again), 0)
				expect.Equal(t, "told by a renewal", b.c.Renew(b.ctx, []*sq.Claim{h})[0].Steer, false)
				var ran []string
				for more := b.finish(h); more; more = b.finish(h) {
					ran = append(ran, group(h)...)
				}
				expect.List(t, "turns of their own", ran, left...)
				b.nothingLeft("at the end")
			}, c.limits, line(session.QueueSettings{Cap: 100}))
		})
	}
}

// between puts ids that have no task at the end of the line: they take up room only.
func (b *bench) between(n int) {
	b.Helper()
	ids := make([]any, n)
	for i := range ids {
		ids[i] = b.task(fmt.Sprint("gone", i))
	}
	expect.OK(b, b.rdb.LPush(b.ctx, b.k.Pending(), ids...).Err())
}

// A steer looks at both ends of a long line. What is in its midst comes into sight when
// what stands before it has been steered, or waits for its turn.
func TestSteerOfALongLine(t *testing.T) {
	t.Parallel()
	b := newBench(t, line(session.QueueSettings{Cap: 10_000}))
	b.say("a")
	h := b.start()
	b.say("first", session.ModeSteer)
	b.between(700)
	b.say("deep", session.ModeSteer)
	b.between(199)
	b.say("mid", session.ModeSteer)
	b.between(498)
	b.say("last", session.ModeSteer)
	var got [][]string
	for {
		taken, err := h.Steer(b.ctx)
		expect.OK(t, err)
		var ids []string
		for _, m := range taken {
			ids = append(ids, m.Message.ID)
		}
		got = append(got, ids)
		if !h.SteerWaits() {
			break
		}
		expect.Equal(t, "told by a renewal", b.c.Renew(b.ctx, []*sq.Claim{h})[0].Steer, true)
	}
	expect.Equal(t, "taken", fmt.Sprint(got), "[[first mid last] []]")
	expect.Equal(t, "told by a renewal", b.c.Renew(b.ctx, []*sq.Claim{h})[0].Steer, false)
	expect.Equal(t, "what is in the midst", b.state("deep"), "pending")
}

// A sender of the version before says only in the follow-up that its message is to be
// steered in.
func TestSteerOfAnEarlierSender(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	for id, n := range map[string]int{"short": 100, "long": 5000} {
		_, err := b.client.Submit(b.ctx, key, session.Message{ID: id, Text: strings.Repeat("x", n), Mode: session.ModeSteer})
		expect.OK(t, err)
		expect.Equal(t, id+" has the field", b.rdb.HDel(b.ctx, b.k.Task(b.task(id)), "steer").Val(), 1)
	}
	b.say("plain")
	taken, err := h.Steer(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "taken", len(taken), 1)
	expect.Equal(t, "the message", taken[0].Message.ID, "short")
	expect.Equal(t, "the long one", b.state("long"), "pending")
	expect.Equal(t, "the plain one", b.state("plain"), "pending")
}

// The results of a large turn's messages are not a list of all its messages each, nor
// the reply as often as does harm. The event has both.
func TestResultsOfALargeTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply   string
		replies bool
	}{
		"with a short reply": {"done", true},
		"with a long one":    {strings.Repeat("x", 200_000), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, line(session.QueueSettings{Cap: 100}))
			b.say("a")
			h := b.start()
			var ids []string
			for i := range 60 {
				ids = append(ids, fmt.Sprint(strings.Repeat("m", 100), i))
				b.say(ids[i], session.ModeCollect)
			}
			b.windowsEnd(ids...)
			b.finish(h)
			expect.Equal(t, "collected", len(group(h)), 60)
			_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Reply: c.reply})
			expect.OK(t, err)
			expect.Equal(t, "named by the event", len(b.told(session.EventTurnEnded, ids[59])[0].Messages), 60)
			for i, id := range ids {
				result := b.rdb.HGet(b.ctx, b.k.Task(b.task(id)), "result").Val()
				o := b.outcome(id)
				expect.Equal(t, "status", o.Status, session.StatusDone)
				expect.Equal(t, id+" names them all", strings.Contains(result, `"messages"`), i == 0)
				expect.Equal(t, id+" has the reply", o.Reply == c.reply, i == 0 || c.replies)
			}
		})
	}
}
