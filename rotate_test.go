package turnstile_test

import (
	"strings"
	"testing"

	"turnstile"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// A turn ends in the old transcript after a /new, and the messages that wait begin the new one,
// whatever ends the turn.
func TestCommandNewInMidTurn(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *actors.Bench, h *protocol.Claim) *protocol.Claim{
		"/new":   func(b *actors.Bench, h *protocol.Claim) *protocol.Claim { b.Finish(h); return h },
		"/reset": func(b *actors.Bench, h *protocol.Claim) *protocol.Claim { b.Finish(h); return h },
		"/new and a release": func(b *actors.Bench, h *protocol.Claim) *protocol.Claim {
			end := b.Done(h)
			end.Release = true
			_, err := h.Finish(b.Ctx, end)
			expect.OK(b, err)
			return b.Start()
		},
	} {
		t.Run(strings.ReplaceAll(name, "/", ""), func(t *testing.T) {
			t.Parallel()
			actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
				b.Say("a")
				h := b.Start()
				old := h.Turn().TranscriptID
				b.Say("b")
				b.SayCollected("c", "d")
				b.Say("s", session.ModeSteer)
				_, err := h.Steer(b.Ctx)
				expect.OK(t, err)
				command, _, _ := strings.Cut(name, " ")
				b.Replies(command, "The running turn ends in the old one")
				fresh := b.Info().TranscriptID
				expect.Equal(t, "session id changed", fresh != old, true)
				h = end(b, h)
				expect.Equal(t, "session id of what waited", h.Turn().TranscriptID, fresh)
				expect.Equal(t, "entries", h.Turn().Entries, 0)
				b.Finish(h)
				expect.List(t, "the turn", actors.MessageIDs(h), "c", "d")
				b.Finish(h)
				expect.List(t, "the old transcript", b.Transcript(old), "a", "re: a")
				expect.List(t, "the new transcript", b.Transcript(fresh), "b", "re: b", "c", "d", "re: c")
				expect.Equal(t, "the steered one's", b.Outcome("s").TranscriptID, old)
				b.Replies(command, "The next message begins a new conversation.")
			})
		})
	}
}

func TestB77_RotationKeepsTheLock(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	h := b.Start()
	old, before := h.Turn().TranscriptID, b.Redis.Get(b.Ctx, b.Keys.Sentinel()).Val()
	fresh, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx, turnstile.TranscriptConfig{Replaces: old})
	expect.OK(t, err)
	if fresh == old {
		t.Fatal("not rotated")
	}
	expect.Equal(t, "sentinel", b.Redis.Get(b.Ctx, b.Keys.Sentinel()).Val(), before)
	expect.OK(t, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Text: "still mine"}}))
	expect.Equal(t, "has a next turn", b.Finish(h), true)
	expect.Equal(t, "next session id", h.Turn().TranscriptID, fresh)
	expect.Equal(t, "its entries", h.Turn().Entries, 0)
	expect.OK(t, h.Promote(b.Ctx))
	b.Finish(h)
	expect.List(t, "old transcript", b.Transcript(old), "a", "re: a")
	expect.List(t, "new transcript", b.Transcript(fresh), "b", "re: b")
	expect.Equal(t, "entries counted", b.Info().Entries, 2)
	expect.Equal(t, "session id", b.Info().TranscriptID, fresh)

	again, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
	expect.OK(t, err)
	b.Say("c")
	h = b.Claim()
	expect.Equal(t, "session id after an idle rotation", h.Turn().TranscriptID, again)
	expect.Equal(t, "its entries", h.Turn().Entries, 0)
}

func TestB78_RotationOfAnIDThatIsGone(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	before := b.Dump()
	now, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx, turnstile.TranscriptConfig{Replaces: "long-gone"})
	expect.OK(t, err)
	expect.Equal(t, "session id", now, h.Turn().TranscriptID)
	actors.Same(t, "a rotation of another id", before, b.Dump())
}
