package protocol_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnstile/internal/lease"
	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func (b *bench) updatedAt() int64 {
	b.Helper()
	ms, err := b.rdb.HGet(b.ctx, b.k.Record(), "updated_at").Int64()
	expect.OK(b, err)
	return ms
}

// tick waits until Redis' clock shows another millisecond.
func (b *bench) tick() {
	b.Helper()
	from := b.rdb.Time(b.ctx).Val()
	expect.Soon(b, "a millisecond", func() bool { return b.rdb.Time(b.ctx).Val().Sub(from) > 2*time.Millisecond })
}

func TestB55_CheckpointLeavesTheIndex(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	before := b.rdb.ZRangeWithScores(b.ctx, rediskey.Sessions, 0, -1).Val()
	was := b.updatedAt()
	b.tick()
	expect.OK(t, h.Checkpoint(b.ctx, did(h.Turn(), "half")))
	if b.updatedAt() <= was {
		t.Error("the record was not written")
	}
	if now := b.rdb.ZRangeWithScores(b.ctx, rediskey.Sessions, 0, -1).Val(); !slices.Equal(now, before) {
		t.Errorf("the index went from %v to %v", before, now)
	}
	// Nor does it make a session known that was taken out.
	expect.OK(t, b.rdb.Del(b.ctx, rediskey.Sessions).Err())
	expect.OK(t, h.Checkpoint(b.ctx, did(h.Turn(), "half")))
	expect.Equal(t, "in the index", b.isIn(rediskey.Sessions, key), false)
}

func TestB56_SavedIsInTheIndex(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	expect.Equal(t, "in the index before its turn", b.isIn(rediskey.Sessions, key), true)
	b.finish(b.start())
	expect.Equal(t, "in the index", b.isIn(rediskey.Sessions, key), true)
	expect.Equal(t, "records", b.rdb.Exists(b.ctx, b.k.Record()).Val(), 1)
}

func TestB57_CheckpointThenSave(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	b.finish(b.start())
	b.say("b")
	h := b.start()
	id := h.Turn().SessionID
	expect.OK(t, h.Checkpoint(b.ctx, did(h.Turn(), "half")))
	expect.List(t, "transcript before the end", b.transcript(id), "a", "re: a")
	b.finish(h)
	expect.Equal(t, "in the index", b.isIn(rediskey.Sessions, key), true)
	expect.List(t, "transcript", b.transcript(id), "a", "re: a", "b", "re: b")
	expect.Equal(t, "partials", b.rdb.Exists(b.ctx, b.k.Partial()).Val(), 0)
}

// What is no activity of the conversation does not make it younger.
func TestB58_TimeIsNotTouched(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.claim()
	was := b.updatedAt()
	submit := func(text string) error {
		_, err := b.client.Submit(b.ctx, key, session.Message{Text: text})
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"promote", func() error { return h.Promote(b.ctx) }},
		{"renew", func() error { return b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err }},
		{"emit", func() error { return h.Emit(b.ctx, []session.Event{{Type: "text", Text: "x"}}) }},
		{"a follow-up", func() error { return submit("b") }},
		{"/queue default", func() error { return submit("/queue default") }},
		{"no title", func() error { return b.client.SetTitle(b.ctx, key, "") }},
		{"a mark by hand", func() error { _, err := resume.Mark(b.ctx, b.rdb, key, ""); return err }},
		{"its clear", func() error { _, err := resume.Clear(b.ctx, b.rdb, key); return err }},
		{"a drain's mark", func() error { return b.c.Mark(b.ctx, []*sq.Claim{h}, resume.ReasonShutdown)[0].Err }},
	} {
		b.tick()
		expect.OK(t, step.do())
		expect.Equal(t, "updated_at after "+step.name, b.updatedAt(), was)
	}
	expect.OK(t, h.Requeue(b.ctx, resume.ReasonShutdown))
	expect.Equal(t, "updated_at after a requeue", b.updatedAt(), was)
}

func TestB63_CheckpointAdvancesTheTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	for range 3 {
		was := b.updatedAt()
		b.tick()
		expect.OK(t, h.Checkpoint(b.ctx, did(h.Turn(), "half")))
		if now := b.updatedAt(); now <= was {
			t.Errorf("updated_at went from %d to %d", was, now)
		}
	}
}

func TestB70_LostCheckpointWritesNothing(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*bench, *sq.Claim){
		"the sentinel ran out": func(b *bench, _ *sq.Claim) { b.die() },
		"another's turn":       func(b *bench, _ *sq.Claim) { b.die(); b.start() },
		"another's turn, with more": func(b *bench, _ *sq.Claim) {
			b.die()
			h := b.start()
			expect.OK(b, h.Checkpoint(b.ctx, did(h.Turn(), "newer")))
		},
		"another has finished":       func(b *bench, _ *sq.Claim) { b.die(); b.finish(b.start()) },
		"another has given it back":  func(b *bench, _ *sq.Claim) { b.die(); expect.OK(b, b.start().Requeue(b.ctx, "x")) },
		"the conversation is erased": func(b *bench, _ *sq.Claim) { b.die(); expect.OK(b, b.client.Erase(b.ctx, key)) },
		"the same sentinel, and a later fence": func(b *bench, _ *sq.Claim) {
			expect.OK(b, b.rdb.HIncrBy(b.ctx, b.k.Run(), "fence", 1).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.sayAll("a", "b")
			h := b.start()
			expect.OK(t, h.Checkpoint(b.ctx, did(h.Turn(), "old")))
			lose(b, h)
			// A checkpoint that lasts would make it a minute again.
			if b.rdb.Exists(b.ctx, b.k.Sentinel()).Val() == 1 {
				expect.OK(t, b.rdb.PExpire(b.ctx, b.k.Sentinel(), 30*time.Second).Err())
			}
			before := b.dump()
			if err := h.Checkpoint(b.ctx, did(h.Turn(), "never")); !errors.Is(err, lease.ErrLost) {
				t.Errorf("checkpoint: %v", err)
			}
			same(t, "a lost owner's checkpoint", before, b.dump())
			if left := b.rdb.PTTL(b.ctx, b.k.Sentinel()).Val(); left > 30*time.Second {
				t.Errorf("it extended the sentinel to %s", left)
			}
			if err := h.Lease().Held(); !errors.Is(err, lease.ErrLost) {
				t.Errorf("the hold does not know that it is lost: %v", err)
			}
		})
	}
}

// A partial that cannot be read is as good as none, however the turn ended that
// left it.
func TestSpoiltPartialStopsNoSession(t *testing.T) {
	t.Parallel()
	for name, text := range spoilt {
		for _, asked := range []session.Mode{"", session.ModeInterrupt, session.ModeRollback} {
			t.Run(name+" "+string(asked), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.sayAll("a", "b")
				h := b.start()
				id := h.Turn().SessionID
				fence := strconv.FormatInt(h.Turn().Fence, 10)
				expect.OK(t, b.rdb.Set(b.ctx, b.k.Partial(), strings.ReplaceAll(text, "F", fence), time.Hour).Err())
				runs, transcript := []string{"a", "b"}, []string{"a", "re: a", "b", "re: b"}
				if asked != "" {
					b.say("urgent", asked)
					runs, transcript = []string{"urgent", "b"}, []string{"urgent", "re: urgent", "b", "re: b"}
				}
				b.die()
				h = b.claim()
				expect.Equal(t, "message", h.Turn().Message.ID, runs[0])
				expect.Equal(t, "a partial", b.past(h).Partial == nil, true)
				expect.OK(t, h.Promote(b.ctx))
				b.finish(h)
				expect.Equal(t, "next message", h.Turn().Message.ID, runs[1])
				expect.OK(t, h.Promote(b.ctx))
				b.finish(h)
				expect.List(t, "transcript", b.transcript(id), transcript...)
				expect.Equal(t, "partials", b.rdb.Exists(b.ctx, b.k.Partial()).Val(), 0)
			})
		}
	}
}

// A partial may be larger than any message.
func TestLargePartial(t *testing.T) {
	t.Parallel()
	output, err := json.Marshal(strings.Repeat("0123456789abcde\n", 3<<16)) // 3 MiB
	expect.OK(t, err)
	fill := func(b *bench, h *sq.Claim) []session.Entry {
		entries := append(did(h.Turn()), session.Entry{
			Role: session.RoleTool, Turn: h.Turn().ID, Interrupted: true, Tool: &session.ToolUse{Name: "cat", CallID: "1", Output: output},
		})
		expect.OK(b, h.Checkpoint(b.ctx, entries))
		return entries
	}
	check := func(t *testing.T, e session.Entry) {
		t.Helper()
		if e.Tool == nil || len(e.Tool.Output) != len(output) {
			t.Errorf("the tool's output is not the one that was stored: %.100v", e)
		}
	}
	for _, kind := range []string{"drain", "crash"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.say("a")
			h := b.start()
			if entries := fill(b, h); kind == "drain" {
				expect.OK(t, h.Requeue(b.ctx, resume.ReasonShutdown, entries...))
			} else {
				b.die()
			}
			past := b.past(b.claim())
			if past.Partial == nil || len(past.Partial.Entries) != 2 {
				t.Fatalf("partial: %v", past.Partial == nil)
			}
			check(t, past.Partial.Entries[1])
		})
	}
	t.Run("interrupted while dead", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.say("a")
		h := b.start()
		fill(b, h)
		b.say("urgent", session.ModeInterrupt)
		b.die()
		past := b.past(b.claim())
		if len(past.Entries) != 2 {
			t.Fatalf("entries: %d", len(past.Entries))
		}
		check(t, past.Entries[1])
	})
}
