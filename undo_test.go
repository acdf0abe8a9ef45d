package turnstile_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"turnstile/test/actors"
	"turnstile/test/expect"
)

// another makes another sender.
func another(b *actors.Bench) *actors.Client { b.Helper(); return actors.NewClient(b.BareRedis()) }

func TestB75_Undo(t *testing.T) {
	t.Parallel()
	actors.OnceAndTwice(t, func(t *testing.T, b *actors.Bench) {
		b.Replies("/undo", "no turn yet")
		b.Replies("/retry", "no turn yet")
		b.SayAll("a", "b")
		b.Drain()
		sid := b.Info().TranscriptID
		// An unreadable entry belongs to the turn before it.
		b.Redis.RPush(b.Ctx, b.Keys.Transcript(sid), "not JSON", `{"turn":""}`, `{"turn":7}`)
		entries := b.Info().Entries
		b.Replies("/undo", "(5 entries): b")
		expect.List(t, "transcript", b.Transcript(sid), "a", "re: a")
		if b.Info().Entries <= entries {
			t.Error("nobody sees that the transcript has changed")
		}
		expect.Equal(t, "session id", b.Info().TranscriptID, sid)
		u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
		expect.OK(t, err)
		expect.Equal(t, "undone", u.Text, "a")
		expect.List(t, "transcript", b.Transcript(sid))
		b.Replies("/undo", "no turn yet")
	})
}

// Undo and retry are refused, with a clear reply and nothing changed, while a worker owns the
// session, also a worker that claimed it since the look.
func TestB75_RefusedWhileOwned(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"/undo", "/retry"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t)
			b.Say("a")
			b.Drain()
			b.Say("b")
			h := b.Claim()
			was := b.Dump()
			b.Replies(command, "A turn is running")
			expect.OK(t, h.Promote(b.Ctx))
			b.Replies(command, "A turn is running")
			promoted := strings.NewReplacer(`phase="running"`, `phase="starting"`, fmt.Sprintf(` seq="%d 0"`, h.Turn().Fence), "")
			actors.Same(t, command, was, promoted.Replace(b.Dump()))
			b.Finish(h)
			b.Say("c")
			b.Redis.AddHook(actors.Before(actors.Script("undo"), sync.OnceFunc(func() { h = b.Start(); was = b.Dump() })))
			b.Replies(command, "A turn is running")
			actors.Same(t, command, was, b.Dump())
			b.Finish(h)
			expect.List(t, "transcript", b.Transcript(b.Info().TranscriptID), "a", "re: a", "b", "re: b", "c", "re: c")
		})
	}
}

// An entry that is unreadable to Go, or only to Lua, belongs to the turn before it.
func TestB75_UndoOfAnUnreadableEnd(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.SayAll("a", "b")
	b.Drain()
	sid := b.Info().TranscriptID
	b.Redis.RPush(b.Ctx, b.Keys.Transcript(sid), `{"turn":"x","at":NaN}`, `{"turn":"\ud800"`)
	u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "b 4")
	expect.List(t, "transcript", b.Transcript(sid), "a", "re: a")
}
