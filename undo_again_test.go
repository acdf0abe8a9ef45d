package turnstile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A call that is repeated after a lost reply has the same result, whatever others have undone
// meanwhile: it removes no other turn.
func TestUndoIsRepeatedBehindAnother(t *testing.T) {
	t.Parallel()
	undo := func(ctx context.Context, c *actors.Client) (session.Undone, error) {
		return c.Session(actors.Key).Undo(ctx)
	}
	retry := func(ctx context.Context, c *actors.Client) (session.Undone, error) {
		return c.Session(actors.Key).Retry(ctx)
	}
	for name, c := range map[string]struct {
		first, other func(context.Context, *actors.Client) (session.Undone, error)
		then         []string
	}{
		"undo, undo":   {undo, undo, []string{"a", "re: a"}},
		"undo, retry":  {undo, retry, []string{"a", "re: a", "b", "re: b"}},
		"retry, undo":  {retry, undo, []string{"a", "re: a", "c", "re: c"}},
		"retry, retry": {retry, retry, []string{"a", "re: a", "b", "re: b", "c", "re: c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Load("undo")
			for _, text := range []string{"a", "b", "c"} {
				b.Say(text)
				b.Drain()
			}
			faults, other := &redistest.Faults{}, another(b)
			b.Redis.AddHook(faults)
			b.Redis.AddHook(actors.Behind(actors.Script("undo"), sync.OnceFunc(func() {
				u, err := c.other(b.Ctx, other)
				expect.OK(t, err)
				expect.Equal(t, "the other's", u.Text, "b")
			})))
			faults.RunTwice(actors.Script("undo"), 1)
			u, err := c.first(b.Ctx, b.Client)
			expect.OK(t, err)
			expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "c 2")
			expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "a", "re: a")
			b.Drain()
			expect.List(t, "transcript then", b.Transcript(b.Info().TranscriptID), c.then...)
		})
	}
}

// Undo notices a turn that ended since it read the transcript, also if the transcript is no longer
// than before.
func TestUndoNoticesATurnInAFullTranscript(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.TranscriptCap = 4 })
	b.SayAll("a", "b")
	b.Drain()
	b.Redis.AddHook(actors.Before(actors.Script("undo"), sync.OnceFunc(func() { b.Say("c"); b.Drain() })))
	u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "undone", u.Text, "c")
	expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "b", "re: b")
}

// The last turn is read in pages, as far as it goes.
func TestUndoOfALargeTurn(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.TranscriptCap = 20_000 })
	b.Say("a")
	b.Drain()
	b.Say("b")
	h := b.Start()
	large := strings.Repeat("x", 900<<10)
	end := protocol.End{Status: session.StatusDone, Entries: []session.Entry{{Role: session.RoleUser, Text: "b", Message: "b", Turn: h.Turn().ID}}}
	for range 5 {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: large, Turn: h.Turn().ID})
	}
	_, err := h.Finish(b.Ctx, end)
	expect.OK(t, err)
	u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "b 6")
	expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "a", "re: a")

	b.Say("c")
	h = b.Start()
	end.Entries = []session.Entry{{Role: session.RoleUser, Text: "c", Message: "c", Turn: h.Turn().ID}}
	for range 10_000 {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: "x", Turn: h.Turn().ID})
	}
	_, err = h.Finish(b.Ctx, end)
	expect.OK(t, err)
	before := b.Dump()
	if _, err = b.Client.Session(actors.Key).Undo(b.Ctx); err == nil || !strings.Contains(err.Error(), "more than 10000 entries") || !errors.Is(err, session.ErrUnchanged) {
		t.Errorf("error: %v", err)
	}
	actors.Same(t, "undo", before, b.Dump())
}

// Undo gives up on a transcript that changes after each look.
func TestUndoOfWhatKeepsChanging(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Load("undo")
	b.Say("a")
	b.Drain()
	looks := 0
	b.Redis.AddHook(actors.Before(actors.Script("undo"), func() {
		looks++
		b.Redis.RPush(b.Ctx, b.Keys.Transcript(b.Info().TranscriptID), "another program's")
	}))
	if _, err := b.Client.Session(actors.Key).Undo(b.Ctx); !errors.Is(err, session.ErrBusy) {
		t.Errorf("error: %v", err)
	}
	expect.Equal(t, "looks", looks, 10)
}
