package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A call skips a bounded number of IDs without a task, and the next call continues.
func TestManyIDsWithoutTasks(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(b *actors.Bench){
		"claim": func(b *actors.Bench) {
			between(b, 1200)
			b.Say("now")
		},
		"finish": func(b *actors.Bench) {
			b.Say("first")
			h := b.Start()
			between(b, 1200)
			b.Say("now")
			expect.Equal(b, "the next turn is taken", b.Finish(h), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, actors.Line(session.QueueSettings{Cap: 10_000}))
			then(b)
			for b.Redis.LLen(b.Ctx, b.Keys.Pending()).Val() > 500 {
				b.Redis.Del(b.Ctx, rediskey.Ready)
				b.ClaimNothing("the rest is another call's")
				expect.Equal(t, "workers are notified", b.IsIn(rediskey.Ready, actors.Key), true)
			}
			expect.List(t, "then", b.Drain(), "now")
			b.NothingLeft("at the end")
		})
	}
}

// The journal of a dead worker's turn goes into the transcript, however large it is.
func TestInterruptedWithALargeJournal(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	entries := []session.Entry{{Role: session.RoleUser, Text: "a"}}
	for range 12 {
		entries = append(entries, session.Entry{Role: session.RoleAssistant, Text: strings.Repeat("x", 1<<20)})
	}
	expect.OK(t, actors.Checkpoint(b.Ctx, h, entries))
	b.Say("b", session.ModeInterrupt)
	b.Die()
	expect.List(t, "next", actors.MessageIDs(b.Claim()), "b")
	expect.Equal(t, "entries", b.Redis.LLen(b.Ctx, b.Keys.Transcript(b.Info().TranscriptID)).Val(), 13)
	expect.Equal(t, "journals", b.Redis.Exists(b.Ctx, b.Keys.Journal()).Val(), 0)
	expect.Equal(t, "its end", b.Outcome("a").Status, session.StatusInterrupted)
}

// A lower transcript cap takes effect over several turns, on the fast path and the full path.
func TestTranscriptCapIsLoweredStepByStep(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]session.Status{"fast path": session.StatusDone, "full path": session.StatusInterrupted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.TranscriptCap = 10 })
			b.Say("first")
			first := b.Start()
			b.Finish(first) // two entries
			entries := make([]any, 2498)
			for i := range entries {
				entries[i] = "{}"
			}
			transcript := b.Keys.Transcript(b.Info().TranscriptID)
			expect.OK(t, b.Redis.RPush(b.Ctx, transcript, entries...).Err())
			expect.OK(t, b.Redis.HIncrBy(b.Ctx, b.Keys.Run(), "entries", int64(len(entries))).Err())
			b.SayAll("a", "b", "c", "d")
			h := b.Start()
			var lengths []int64
			for more := true; more; {
				end := b.Done(h) // of two entries
				end.Status = status
				var err error
				more, err = h.Finish(b.Ctx, end)
				expect.OK(t, err)
				lengths = append(lengths, b.Redis.LLen(b.Ctx, transcript).Val())
			}
			expect.Equal(t, "lengths", fmt.Sprint(lengths), "[1500 500 10 10]")
		})
	}
}
