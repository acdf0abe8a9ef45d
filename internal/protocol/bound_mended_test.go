package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A call passes by so many ids without a task, and the next one goes on.
func TestManyIDsWithoutTasks(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(b *bench){
		"claim": func(b *bench) {
			b.between(1200)
			b.say("now")
		},
		"finish": func(b *bench) {
			b.say("first")
			h := b.start()
			b.between(1200)
			b.say("now")
			expect.Equal(b, "the next turn is taken", b.finish(h), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, line(session.QueueSettings{Cap: 10_000}))
			then(b)
			for b.rdb.LLen(b.ctx, b.k.Pending()).Val() > 500 {
				b.rdb.Del(b.ctx, rediskey.Ready)
				b.claimNothing("the rest is another call's")
				expect.Equal(t, "workers are told", b.isIn(rediskey.Ready, key), true)
			}
			expect.List(t, "then", b.drain(), "now")
			b.nothingLeft("at the end")
		})
	}
}

// What an interrupted turn had done when its worker died goes into the transcript, if
// that is no more than a script may read.
func TestInterruptedWithALargePartial(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entries int // of 1 MiB
		want    session.Status
		left    int
	}{"small enough": {3, session.StatusInterrupted, 4}, "too large": {5, session.StatusInterrupted, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			h := b.start()
			entries := []session.Entry{{Role: session.RoleUser, Text: "a"}}
			for range c.entries {
				entries = append(entries, session.Entry{Role: session.RoleAssistant, Text: strings.Repeat("x", 1<<20)})
			}
			expect.OK(t, h.Checkpoint(b.ctx, entries))
			b.say("b", session.ModeInterrupt)
			b.die()
			expect.List(t, "next", group(b.claim()), "b")
			expect.Equal(t, "entries", b.rdb.LLen(b.ctx, b.k.Transcript(b.info().SessionID)).Val(), int64(c.left))
			expect.Equal(t, "partial", b.rdb.Exists(b.ctx, b.k.Partial()).Val(), 0)
			expect.Equal(t, "its end", b.outcome("a").Status, c.want)
			expect.Equal(t, "is a dead letter", len(b.dead(key)), map[bool]int{true: 1}[c.left == 0])
		})
	}
}

// A lower cap of a transcript takes effect in several turns, plain ones or not.
func TestTranscriptCapIsLoweredByAndBy(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]session.Status{"plain": session.StatusDone, "not plain": session.StatusInterrupted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *sq.Config) { c.TranscriptCap = 10 })
			b.say("first")
			first := b.start()
			b.finish(first) // two entries
			entries := make([]any, 2498)
			for i := range entries {
				entries[i] = "{}"
			}
			transcript := b.k.Transcript(b.info().SessionID)
			expect.OK(t, b.rdb.RPush(b.ctx, transcript, entries...).Err())
			expect.OK(t, b.rdb.HIncrBy(b.ctx, b.k.Run(), "entries", int64(len(entries))).Err())
			b.sayAll("a", "b", "c", "d")
			h := b.start()
			var lengths []int64
			for more := true; more; {
				end := b.done(h) // of two entries
				end.Status = status
				var err error
				more, err = h.Finish(b.ctx, end)
				expect.OK(t, err)
				lengths = append(lengths, b.rdb.LLen(b.ctx, transcript).Val())
			}
			expect.Equal(t, "lengths", fmt.Sprint(lengths), "[1500 500 10 10]")
		})
	}
}
