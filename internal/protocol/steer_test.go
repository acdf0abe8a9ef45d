package protocol_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A stop does not apply to a steer message that comes after it.
func TestSteerAfterStop(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(b *actors.Bench){
		"stop":      func(b *actors.Bench) { _, err := b.Client.Session(actors.Key).Stop(b.Ctx); expect.OK(b, err) },
		"interrupt": func(b *actors.Bench) { b.Say("i", session.ModeInterrupt) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			ask(b)
			b.Say("s", session.ModeSteer)
			steered, err := h.Steer(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "steered into a turn that is to end", len(steered), 0)
			expect.Equal(t, "state", b.State("s"), "pending")
		})
	}
}

// A steer is reported by the promotion if it came before, by a signal, and by every renewal until
// it was taken.
func TestSteerIsSignalled(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Claim()
	b.Say("b", session.ModeSteer)
	expect.OK(t, h.Promote(b.Ctx))
	expect.Equal(t, "reported by the promotion", h.SteerWaits(), true)
	expect.Equal(t, "reported by a renewal", b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Steer, true)
	taken, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "taken", len(taken), 1)
	expect.Equal(t, "reported by a renewal", b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Steer, false)
	b.Say("c", session.ModeSteer)
	expect.Equal(t, "reported by a renewal", b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Steer, true)
	b.Finish(h)
	expect.Equal(t, "reported of the next turn", b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Steer, false)
	expect.OK(t, h.Promote(b.Ctx))
	expect.Equal(t, "reported by its promotion", h.SteerWaits(), false)
}

// A steered message ends with its turn, however that ends.
func TestSteeredEndsWithItsTurn(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Say("a")
		h := b.Start()
		b.Say("b")
		b.Say("c", session.ModeSteer)
		b.Say("d", session.ModeSteer)
		taken, err := h.Steer(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "taken", len(taken), 2)
		expect.Equal(t, "in order", taken[0].Message.Text+taken[1].Message.Text, "cd")
		expect.List(t, "the line", b.Waiting(), "b")
		again, err := h.Steer(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "taken again", len(again), 0)
		list, err := b.Client.Operate(actors.Key).FollowUps(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "c's state", list[1].State, session.MessageSteered)
		waited := b.WaitFor("d")
		expect.Equal(t, "has a next turn", b.Finish(h), true)
		for _, o := range []session.Outcome{b.Outcome("c"), b.Outcome("d"), <-waited} {
			expect.Equal(t, "its end", string(o.Status)+" "+o.Reply, "done re: a")
		}
		expect.List(t, "then", actors.MessageIDs(h), "b")
		b.Finish(h)
		b.NothingLeft("at the end")
	})
}

// The result of a steer is lost and not requested again: the message is not lost.
func TestSteerWhoseResultIsLost(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	b.Say("a")
	h := b.Start()
	b.Say("b", session.ModeSteer)
	faults.LoseReply(actors.Script("steer"), 1)
	taken, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "taken by the repetition", len(taken), 1)
	b.Finish(h)
	expect.Equal(t, "its end", b.Outcome("b").Status, session.StatusDone)
}

// A message that the agent did not take has its old place in the queue, as if it was never offered:
// after earlier ones, and after those that go first.
func TestUntakenSteerKeepsItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		modes []session.Mode // of b, c, d ..., while a runs; the steer messages are offered
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
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("a")
				h := b.Start()
				var untaken []string
				for i, mode := range c.modes {
					id := string(rune('b' + i))
					b.Say(id, mode)
					if mode == session.ModeSteer {
						untaken = append(untaken, id)
					}
					if mode == session.ModeCollect {
						windowsEnd(b, id)
					}
				}
				_, err := h.Steer(b.Ctx)
				expect.OK(t, err)
				end := b.Done(h)
				end.Untaken = untaken
				more, err := h.Finish(b.Ctx, end)
				expect.OK(t, err)
				expect.List(t, "what a's end names", eventsAbout(b, session.EventTurnEnded, "a")[0].Messages, "a")
				var ran []string
				for more {
					ran = append(ran, actors.MessageIDs(h)...)
					expect.Equal(t, "redelivered", h.Turn().Redelivered, 0)
					more = b.Finish(h)
				}
				ran = append(ran, b.Drain()...)
				expect.Equal(t, "order", strings.Join(ran, ""), c.want)
				b.NothingLeft("at the end")
			})
		})
	}
}

// A dead turn goes on with its steers, each once.
func TestSteeredTurnDies(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Say("a")
		h := b.Start()
		sid := h.Turn().TranscriptID
		b.Say("b")
		b.Say("c", session.ModeSteer)
		_, err := h.Steer(b.Ctx)
		expect.OK(t, err)
		expect.OK(t, actors.Checkpoint(b.Ctx, h, []session.Entry{
			{Role: session.RoleUser, Text: "a", Turn: h.Turn().ID}, {Role: session.RoleUser, Text: "c", Turn: h.Turn().ID},
		}))
		b.Die()
		expect.List(t, "runs", b.Drain(), "a", "b")
		expect.List(t, "transcript", b.Transcript(sid), "a", "c", "re: a", "b", "re: b")
		b.NothingLeft("at the end")
	})
}

// In each later run a turn knows which of its messages were steered in, also if no run has written anything.
func TestStartersOfALaterRun(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayCollected("a", "b")
	h := b.Start()
	for _, steer := range []string{"c", "d"} {
		b.Say(steer, session.ModeSteer)
		_, err := h.Steer(b.Ctx)
		expect.OK(t, err)
		b.Die()
		h = b.Start()
		var starters []string
		for _, m := range h.Turn().Starters() {
			starters = append(starters, m.Message.ID)
		}
		expect.List(t, "starters", starters, "a", "b")
		expect.Equal(t, "the last message", h.Turn().Collected[len(h.Turn().Collected)-1].Message.ID, steer)
	}
}

// An untaken message goes back to its place near the ends of a long queue, and ahead of its place
// in the middle.
func TestUntakenSteersOfALongLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, behind int // IDs in the queue, older and newer than the steers
		place          int // of the first steer, from the head
	}{
		"near the head":       {400, 900, 400},
		"near the end":        {900, 400, 900},
		"in the midst":        {900, 800, 500},
		"in a short one":      {600, 300, 600},
		"as far as is looked": {500, 500, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("a")
				h := b.Start()
				b.SayMany("old", c.before)
				b.Say("s1", session.ModeSteer)
				b.Say("s2", session.ModeSteer)
				taken, err := h.Steer(b.Ctx)
				expect.OK(t, err)
				expect.Equal(t, "taken", len(taken), 2)
				b.SayMany("new", c.behind)
				end := b.Done(h)
				end.Untaken, end.Release = []string{"s1", "s2"}, true
				_, err = h.Finish(b.Ctx, end)
				expect.OK(t, err)
				got := b.Waiting()
				expect.Equal(t, "the line", len(got), c.before+c.behind+2)
				expect.Equal(t, "first", slices.Index(got, "s1"), c.place)
				expect.Equal(t, "second", slices.Index(got, "s2"), c.place+1)
				others := slices.DeleteFunc(got, func(id string) bool { return strings.HasPrefix(id, "s") })
				expect.Equal(t, "the others are in order", slices.IsSorted(others[:c.before]) && slices.IsSorted(others[c.before:]), true)
			}, actors.Line(session.QueueSettings{Cap: 10_000}))
		})
	}
}

// A message that asynq's recoverer has removed from a turn is not the next turn's, whether others
// wait or not.
func TestUntakenMessageThatHasLeftTheTurn(t *testing.T) {
	t.Parallel()
	for name, others := range map[string][]string{"others wait": {"other"}, "none waits": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("now")
			h := b.Start()
			b.Say("s", session.ModeSteer)
			b.SayAll(others...)
			got, err := h.Steer(b.Ctx)
			expect.OK(t, err)
			expect.Equal(t, "steered", len(got), 1)
			expect.OK(t, b.Redis.LRem(b.Ctx, b.Keys.Active(), 1, b.Task("s")).Err())
			expect.OK(t, b.Redis.ZAdd(b.Ctx, b.Keys.Archived(), redis.Z{Score: 1, Member: b.Task("s")}).Err())
			expect.OK(t, b.Redis.HSet(b.Ctx, b.Keys.Task(b.Task("s")), "state", "archived").Err())
			more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Untaken: []string{"s"}})
			expect.OK(t, err)
			expect.Equal(t, "has a next turn", more, len(others) > 0)
			if more {
				expect.Equal(t, "message", h.Turn().Message.ID, "other")
				expect.Equal(t, "in the turn", b.State("other"), "active")
			}
			expect.Equal(t, "reply to now", b.Outcome("now").Status, session.StatusDone)
		})
	}
}

// A /stop that comes while a turn ends also stops messages that were steered into it.
func TestStopOfAnUntakenMessage(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("now")
	h := b.Start()
	b.Say("s", session.ModeSteer)
	_, err := h.Steer(b.Ctx)
	expect.OK(t, err)
	_, err = b.Client.Session(actors.Key).Stop(b.Ctx)
	expect.OK(t, err)
	b.Say("later")
	more, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Untaken: []string{"s"}})
	expect.OK(t, err)
	expect.Equal(t, "has a next turn", more, true)
	expect.Equal(t, "message", h.Turn().Message.ID, "later")
	expect.Equal(t, "s", b.Outcome("s").Status, session.StatusStopped)
	b.Finish(h)
}
