package protocol_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"turnstile"

	"turnstile/internal/chat/receipt"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/internal/protocol/rediskey"
	"turnstile/pkg/resume"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func updatedAt(b *actors.Bench) int64 {
	b.Helper()
	ms, err := b.Redis.HGet(b.Ctx, b.Keys.Record(), "updated_at").Int64()
	expect.OK(b, err)
	return ms
}

// tick waits until Redis' clock shows another millisecond.
func tick(b *actors.Bench) {
	b.Helper()
	from := b.Redis.Time(b.Ctx).Val()
	expect.Soon(b, "a millisecond", func() bool { return b.Redis.Time(b.Ctx).Val().Sub(from) > 2*time.Millisecond })
}

func TestB55_CheckpointLeavesTheIndex(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	before := b.Redis.ZRangeWithScores(b.Ctx, rediskey.Sessions, 0, -1).Val()
	was := updatedAt(b)
	tick(b)
	expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "half")))
	if updatedAt(b) <= was {
		t.Error("the record was not written")
	}
	if now := b.Redis.ZRangeWithScores(b.Ctx, rediskey.Sessions, 0, -1).Val(); !slices.Equal(now, before) {
		t.Errorf("the index went from %v to %v", before, now)
	}
	// It does not add a session that was removed.
	expect.OK(t, b.Redis.Del(b.Ctx, rediskey.Sessions).Err())
	expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "half")))
	expect.Equal(t, "in the index", b.IsIn(rediskey.Sessions, actors.Key), false)
}

func TestB56_SavedIsInTheIndex(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	expect.Equal(t, "in the index before its turn", b.IsIn(rediskey.Sessions, actors.Key), true)
	b.Finish(b.Start())
	expect.Equal(t, "in the index", b.IsIn(rediskey.Sessions, actors.Key), true)
	expect.Equal(t, "records", b.Redis.Exists(b.Ctx, b.Keys.Record()).Val(), 1)
}

func TestB57_CheckpointThenSave(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	b.Finish(b.Start())
	b.Say("b")
	h := b.Start()
	id := h.Turn().TranscriptID
	expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "half")))
	expect.List(t, "transcript before the end", b.Transcript(id), "a", "re: a")
	b.Finish(h)
	expect.Equal(t, "in the index", b.IsIn(rediskey.Sessions, actors.Key), true)
	expect.List(t, "transcript", b.Transcript(id), "a", "re: a", "b", "re: b")
	expect.Equal(t, "journals", b.Redis.Exists(b.Ctx, b.Keys.Journal()).Val(), 0)
}

// Only the session's activity changes its time.
func TestB58_TimeIsNotTouched(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Claim()
	was := updatedAt(b)
	send := func(text string) error {
		_, err := receipt.Input(b.Ctx, b.Client.Session(actors.Key), turnstile.Message{Text: text})
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"promote", func() error { return h.Promote(b.Ctx) }},
		{"renew", func() error { return b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err }},
		{"emit", func() error { return h.Emit(b.Ctx, []session.Event{{Type: "text", Text: "x"}}) }},
		{"a follow-up", func() error { return send("b") }},
		{"/queue default", func() error { return send("/queue default") }},
		{"no title", func() error { return b.Client.Session(actors.Key).SetTitle(b.Ctx, "") }},
		{"a mark by hand", func() error { _, err := resume.Mark(b.Ctx, b.Redis, actors.Key, ""); return err }},
		{"its clear", func() error { _, err := resume.Clear(b.Ctx, b.Redis, actors.Key); return err }},
		{"a drain's mark", func() error { return b.Worker.Mark(b.Ctx, []*protocol.Claim{h}, resume.ReasonShutdown)[0].Err }},
	} {
		tick(b)
		expect.OK(t, step.do())
		expect.Equal(t, "updated_at after "+step.name, updatedAt(b), was)
	}
	expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
	expect.Equal(t, "updated_at after a requeue", updatedAt(b), was)
}

func TestB63_CheckpointAdvancesTheTime(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	for range 3 {
		was := updatedAt(b)
		tick(b)
		expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "half")))
		if now := updatedAt(b); now <= was {
			t.Errorf("updated_at went from %d to %d", was, now)
		}
	}
}

func TestB70_LostCheckpointWritesNothing(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*actors.Bench, *protocol.Claim){
		"the sentinel ran out": func(b *actors.Bench, _ *protocol.Claim) { b.Die() },
		"another's turn":       func(b *actors.Bench, _ *protocol.Claim) { b.Die(); b.Start() },
		"another's turn, with more": func(b *actors.Bench, _ *protocol.Claim) {
			b.Die()
			h := b.Start()
			expect.OK(b, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "newer")))
		},
		"another has finished": func(b *actors.Bench, _ *protocol.Claim) { b.Die(); b.Finish(b.Start()) },
		"another has given it back": func(b *actors.Bench, _ *protocol.Claim) {
			b.Die()
			expect.OK(b, b.Start().Park(b.Ctx, protocol.Parking{Interrupted: "x"}))
		},
		"the conversation is erased": func(b *actors.Bench, _ *protocol.Claim) {
			b.Die()
			expect.OK(b, b.Client.Operate(actors.Key).Erase(b.Ctx))
		},
		"the same sentinel, and a later fence": func(b *actors.Bench, _ *protocol.Claim) {
			expect.OK(b, b.Redis.HIncrBy(b.Ctx, b.Keys.Run(), "fence", 1).Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.SayAll("a", "b")
			h := b.Start()
			expect.OK(t, actors.Checkpoint(b.Ctx, h, did(h.Turn(), "old")))
			lose(b, h)
			// A checkpoint extends the sentinel to a minute again.
			if b.Redis.Exists(b.Ctx, b.Keys.Sentinel()).Val() == 1 {
				expect.OK(t, b.Redis.PExpire(b.Ctx, b.Keys.Sentinel(), 30*time.Second).Err())
			}
			before := b.Dump()
			if err := actors.Checkpoint(b.Ctx, h, did(h.Turn(), "never")); !errors.Is(err, lease.ErrLost) {
				t.Errorf("checkpoint: %v", err)
			}
			actors.Same(t, "a lost owner's checkpoint", before, b.Dump())
			if left := b.Redis.PTTL(b.Ctx, b.Keys.Sentinel()).Val(); left > 30*time.Second {
				t.Errorf("it extended the sentinel to %s", left)
			}
			if err := h.Lease().Held(); !errors.Is(err, lease.ErrLost) {
				t.Errorf("the claim does not know that it is lost: %v", err)
			}
		})
	}
}

// What a turn has done may be larger than any message.
func TestLargeEntry(t *testing.T) {
	t.Parallel()
	output, err := json.Marshal(strings.Repeat("0123456789abcde\n", 3<<16)) // 3 MiB
	expect.OK(t, err)
	fill := func(b *actors.Bench, h *protocol.Claim) {
		expect.OK(b, actors.Checkpoint(b.Ctx, h, append(did(h.Turn()), session.Entry{
			Role: session.RoleTool, Turn: h.Turn().ID, Interrupted: true, Tool: &session.ToolUse{Name: "cat", CallID: "1", Output: output},
		})))
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
			b := actors.NewBench(t)
			b.Say("a")
			h := b.Start()
			if fill(b, h); kind == "drain" {
				expect.OK(t, h.Park(b.Ctx, protocol.Parking{Interrupted: resume.ReasonShutdown}))
			} else {
				b.Die()
			}
			past := historyOf(b, b.Claim())
			if past.Earlier == nil || len(past.Earlier.Entries) != 2 {
				t.Fatalf("earlier work: %v", past.Earlier == nil)
			}
			check(t, past.Earlier.Entries[1])
		})
	}
	t.Run("interrupted while dead", func(t *testing.T) {
		t.Parallel()
		b := actors.NewBench(t)
		b.Say("a")
		h := b.Start()
		fill(b, h)
		b.Say("urgent", session.ModeInterrupt)
		b.Die()
		past := historyOf(b, b.Claim())
		if len(past.Entries) != 2 {
			t.Fatalf("entries: %d", len(past.Entries))
		}
		check(t, past.Entries[1])
	})
}
