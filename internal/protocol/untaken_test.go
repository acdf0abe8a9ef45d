package protocol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// What the agent did not take goes back near the ends of a long line to its place, and
// in the midst ahead of it.
func TestUntakenSteersOfALongLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, behind int // ids of the line, older and newer than the steers
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
			onceAndTwice(t, func(t *testing.T, b *bench) {
				b.say("a")
				h := b.start()
				b.numbered("old", c.before)
				b.say("s1", session.ModeSteer)
				b.say("s2", session.ModeSteer)
				taken, err := h.Steer(b.ctx)
				expect.OK(t, err)
				expect.Equal(t, "taken", len(taken), 2)
				b.numbered("new", c.behind)
				end := b.done(h)
				end.Untaken, end.Release = []string{"s1", "s2"}, true
				_, err = h.Finish(b.ctx, end)
				expect.OK(t, err)
				got := b.waiting()
				expect.Equal(t, "the line", len(got), c.before+c.behind+2)
				expect.Equal(t, "first", slices.Index(got, "s1"), c.place)
				expect.Equal(t, "second", slices.Index(got, "s2"), c.place+1)
				others := slices.DeleteFunc(got, func(id string) bool { return strings.HasPrefix(id, "s") })
				expect.Equal(t, "the others are in order", slices.IsSorted(others[:c.before]) && slices.IsSorted(others[c.before:]), true)
			}, line(session.QueueSettings{Cap: 10_000}))
		})
	}
}

// numbered puts n messages in line that came now, without their senders.
func (b *bench) numbered(name string, n int) {
	b.Helper()
	seq := b.rdb.HIncrBy(b.ctx, b.k.Record(), "seq", 1).Val()
	p := b.rdb.Pipeline()
	for i := range n {
		id := b.task(fmt.Sprintf("%s%04d", name, i))
		p.LPush(b.ctx, b.k.Pending(), id)
		p.HSet(b.ctx, b.k.Task(id), "msg", "m", "state", "pending", "seq", seq)
	}
	_, err := p.Exec(b.ctx)
	expect.OK(b, err)
}

// What asynq's recoverer, say, has taken out of a turn is not the next one's message,
// whether others wait or none.
func TestUntakenMessageThatHasLeftTheTurn(t *testing.T) {
	t.Parallel()
	for name, others := range map[string][]string{"others wait": {"other"}, "none waits": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("now")
			h := b.start()
			b.say("s", session.ModeSteer)
			b.sayAll(others...)
			got, err := h.Steer(b.ctx)
			expect.OK(t, err)
			expect.Equal(t, "steered", len(got), 1)
			expect.OK(t, b.rdb.LRem(b.ctx, b.k.Active(), 1, b.task("s")).Err())
			expect.OK(t, b.rdb.ZAdd(b.ctx, b.k.Archived(), redis.Z{Score: 1, Member: b.task("s")}).Err())
			expect.OK(t, b.rdb.HSet(b.ctx, b.k.Task(b.task("s")), "state", "archived").Err())
			more, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Untaken: []string{"s"}})
			expect.OK(t, err)
			expect.Equal(t, "goes on", more, len(others) > 0)
			if more {
				expect.Equal(t, "message", h.Turn().Message.ID, "other")
				expect.Equal(t, "in the turn", b.state("other"), "active")
			}
			expect.Equal(t, "reply to now", b.outcome("now").Status, session.StatusDone)
		})
	}
}

// A /stop that comes while a turn ends means what was steered into it, too.
func TestStopOfAnUntakenMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	h := b.start()
	b.say("s", session.ModeSteer)
	_, err := h.Steer(b.ctx)
	expect.OK(t, err)
	_, err = b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	b.say("later")
	more, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Untaken: []string{"s"}})
	expect.OK(t, err)
	expect.Equal(t, "goes on", more, true)
	expect.Equal(t, "message", h.Turn().Message.ID, "later")
	expect.Equal(t, "s", b.outcome("s").Status, session.StatusStopped)
	b.finish(h)
}
