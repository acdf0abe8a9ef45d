package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"turnstile"
	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// filled is a session in mid-turn with a line of n, far beyond the cap that it has now.
func filled(t *testing.T, n int, s session.QueueSettings) *bench {
	t.Helper()
	b := newBench(t)
	b.say("now")
	for i := range n {
		b.say(fmt.Sprint("m", i)) // nothing runs: no cap holds
	}
	b.start()
	expect.OK(t, b.client.Configure(b.ctx, key, s))
	return b
}

// A message drops no more than a batch from a line that is far too long, from its oldest
// end, and asynq counts each. The next ones drop the rest.
func TestDropsInBatches(t *testing.T) {
	t.Parallel()
	b := filled(t, 230, session.QueueSettings{Cap: 10, Drop: session.DropOld})
	for _, c := range []struct{ left, oldest int }{{131, 100}, {32, 200}, {10, 224}} {
		r := b.say(fmt.Sprint("new", c.left))
		expect.Equal(t, "receipt", r.Status, turnstile.Queued)
		expect.Equal(t, "position", r.Position, c.left+1)
		waiting := b.waiting()
		expect.Equal(t, "wait", len(waiting), c.left)
		if want := fmt.Sprint("m", c.oldest); c.oldest < 224 {
			expect.Equal(t, "the oldest", waiting[0], want)
		}
	}
	expect.Equal(t, "the newest", b.waiting()[9], "new10")
	dropped := 230 + 3 - 10
	expect.Equal(t, "dead letters", b.info().Archived, dropped)
	expect.Equal(t, "asynq's failed", b.rdb.Get(b.ctx, b.k.Failed()).Val(), fmt.Sprint(dropped))
	expect.Equal(t, "asynq's processed", b.rdb.Get(b.ctx, b.k.Processed()).Val(), fmt.Sprint(dropped))
}

// Of large messages the batch is 4 MiB.
func TestDropsInBatchesOfBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	text := strings.Repeat("x", session.MaxTextLen)
	for i := range 10 {
		_, err := b.client.Submit(b.ctx, key, session.Message{ID: fmt.Sprint("m", i), Text: text})
		expect.OK(t, err)
	}
	b.start()
	expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{Cap: 1, Drop: session.DropSummarize}))
	b.say("new")
	expect.List(t, "the line", b.waiting(), "m4", "m5", "m6", "m7", "m8", "m9", "new")
}

// However many go first: a message looks no further than a batch, and is queued behind
// them. That they go first is known of their tasks, or of what a sender of an older
// version has told.
func TestDropsLookNoFurther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	b.sayAll("m1", "m2")
	b.start()
	const urgent = 102
	for i := range urgent {
		b.say(fmt.Sprint("first", i), session.ModeInterrupt)
	}
	expect.OK(t, b.rdb.HDel(b.ctx, b.k.Task(b.task("first8")), "first").Err())
	expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{Cap: 1, Drop: session.DropOld}))
	expect.Equal(t, "position", b.say("new").Position, 1+urgent+3)
	expect.Equal(t, "dead letters", b.info().Archived, 0)
	expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{Cap: urgent, Drop: session.DropOld}))
	expect.Equal(t, "position", b.say("newer").Position, 1+urgent+4)

	// With fewer of them it reaches what can go.
	for i := range 4 {
		expect.OK(t, b.inspector().DeleteTask("session:"+key, b.task(fmt.Sprint("first", 101-i))))
	}
	expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{Cap: 1, Drop: session.DropOld}))
	b.say("newest")
	expect.List(t, "behind them", b.waiting()[urgent-4:], "newer", "newest")
	expect.Equal(t, "dead letters", b.info().Archived, 3)
}

// What went first has no such right any more when it comes back from a turn.
func TestDropsWhatCameBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, line(session.QueueSettings{Cap: 1, Drop: session.DropOld}))
	b.say("now")
	h := b.start()
	b.say("first", session.ModeInterrupt)
	_, err := h.Finish(b.ctx, sq.End{Status: session.StatusInterrupted, Release: true})
	expect.OK(t, err)
	expect.OK(t, b.start().Requeue(b.ctx, "drain"))
	expect.Equal(t, "says so", b.rdb.HExists(b.ctx, b.k.Task(b.task("first")), "first").Val(), false)
}

// A message that a /stop has put aside before it rang is stopped: it does not come back
// to the line, whatever it wants.
func TestRingOfAMessageThatIsPutAside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	b.start()
	b.say("first")
	b.enqueue("new")
	expect.OK(t, b.stopInPart())
	expect.List(t, "the line", b.waiting())
	expect.OK(t, b.ring("new", session.ModeInterrupt))
	expect.List(t, "the line", b.waiting())
	_, err := b.client.Stop(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "its end", b.outcome("new").Status, session.StatusStopped)
	expect.Equal(t, "asked of the turn", b.rdb.HGet(b.ctx, b.k.Run(), "interrupt").Val(), "")
}

// A message is found again near the line's end only; farther away its place is the one
// that it had when it came.
func TestRingOfAMessageLongAgo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("now")
	b.sayAll("m1", "m2")
	b.start()
	expect.OK(t, b.client.Configure(b.ctx, key, session.QueueSettings{Cap: 10_000}))
	expect.Equal(t, "position", b.say("old").Position, 4)
	expect.OK(t, b.inspector().DeleteTask("session:"+key, b.task("m1")))
	expect.Equal(t, "again", b.say("old").Position, 3)
	behind := make([]any, 1000)
	for i := range behind {
		behind[i] = b.task(fmt.Sprint("gone", i))
	}
	expect.OK(t, b.rdb.LPush(b.ctx, b.k.Pending(), behind...).Err())
	r := b.say("old", session.ModeInterrupt)
	expect.Equal(t, "behind it many", fmt.Sprint(r.Status, r.State, r.Position), "duplicatepending4")

	// Unannounced until now, and it would interrupt: it stays where it is.
	b.enqueue("unrung")
	expect.OK(t, b.rdb.LPush(b.ctx, b.k.Pending(), behind...).Err())
	expect.Equal(t, "line", len(b.waiting()), 2003)
	expect.OK(t, b.ring("unrung", session.ModeInterrupt))
	expect.Equal(t, "its place", b.waiting()[1002], "unrung")
	expect.Equal(t, "asked of the turn", b.rdb.HGet(b.ctx, b.k.Run(), "interrupt").Val(), "")
}
