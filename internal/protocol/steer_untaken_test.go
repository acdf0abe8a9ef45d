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
)

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
