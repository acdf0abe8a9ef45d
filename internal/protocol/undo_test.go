package protocol_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/internal/rediskey"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// A call whose answer was lost is answered the same, whatever others have undone
// meanwhile: it takes no other turn out.
func TestUndoIsRepeatedBehindAnother(t *testing.T) {
	t.Parallel()
	undo := func(ctx context.Context, c *actors.Client) (session.Undone, error) { return c.Undo(ctx, key) }
	retry := func(ctx context.Context, c *actors.Client) (session.Undone, error) { return c.Retry(ctx, key) }
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
			b := newBench(t)
			b.load("undo")
			for _, text := range []string{"a", "b", "c"} {
				b.say(text)
				b.drain()
			}
			faults, other := &redistest.Faults{}, b.another()
			b.rdb.AddHook(faults)
			b.rdb.AddHook(behind(called("undo"), sync.OnceFunc(func() {
				u, err := c.other(b.ctx, other)
				expect.OK(t, err)
				expect.Equal(t, "the other's", u.Text, "b")
			})))
			faults.RunTwice(called("undo"), 1)
			u, err := c.first(b.ctx, b.client)
			expect.OK(t, err)
			expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "c 2")
			expect.List(t, "transcript", b.transcript(b.info().SessionID), "a", "re: a")
			b.drain()
			expect.List(t, "transcript then", b.transcript(b.info().SessionID), c.then...)
		})
	}
}

// A turn that has ended since the transcript was read is noticed where the transcript is
// as long as before, too.
func TestUndoNoticesATurnInAFullTranscript(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.TranscriptCap = 4 })
	b.sayAll("a", "b")
	b.drain()
	b.rdb.AddHook(before(called("undo"), sync.OnceFunc(func() { b.say("c"); b.drain() })))
	u, err := b.client.Undo(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "undone", u.Text, "c")
	expect.List(t, "transcript", b.transcript(b.info().SessionID), "b", "re: b")
}

// A sender of the version before has taken the turn out, or is to hear that it is out.
func TestUndoBesideTheVersionBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sayAll("a", "b")
	b.drain()
	sid, run := b.info().SessionID, b.rdb.HGet(b.ctx, b.k.Run(), "fence").Val()
	turn := rediskey.IDPrefix(key) + run
	b.rdb.AddHook(before(called("undo"), sync.OnceFunc(func() {
		b.rdb.LTrim(b.ctx, b.k.Transcript(sid), 0, -3)
		b.rdb.HSet(b.ctx, b.k.Record(), "undone", "2 "+turn+" ")
	})))
	u, err := b.client.Undo(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "b 2")
	expect.List(t, "transcript", b.transcript(sid), "a", "re: a")
	u, err = b.client.Undo(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "what the version before reads", b.rdb.HGet(b.ctx, b.k.Record(), "undone").Val(), "2 "+u.Turn+" ")
}

// The last turn is read by pages, as far as it goes.
func TestUndoOfALargeTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *sq.Config) { c.TranscriptCap = 20_000 })
	b.say("a")
	b.drain()
	b.say("b")
	h := b.start()
	large := strings.Repeat("x", 900<<10)
	end := sq.End{Status: session.StatusDone, Entries: []session.Entry{{Role: session.RoleUser, Text: "b", Message: "b", Turn: h.Turn().ID}}}
	for range 5 {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: large, Turn: h.Turn().ID})
	}
	_, err := h.Finish(b.ctx, end)
	expect.OK(t, err)
	u, err := b.client.Undo(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Text, " ", u.Entries), "b 6")
	expect.List(t, "transcript", b.transcript(b.info().SessionID), "a", "re: a")

	b.say("c")
	h = b.start()
	end.Entries = []session.Entry{{Role: session.RoleUser, Text: "c", Message: "c", Turn: h.Turn().ID}}
	for range 10_000 {
		end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: "x", Turn: h.Turn().ID})
	}
	_, err = h.Finish(b.ctx, end)
	expect.OK(t, err)
	before := b.dump()
	if _, err = b.client.Undo(b.ctx, key); err == nil || !strings.Contains(err.Error(), "more than 10000 entries") || !errors.Is(err, session.ErrUnchanged) {
		t.Errorf("error: %v", err)
	}
	same(t, "undo", before, b.dump())
}

// A conversation that changes whenever it was looked at is left alone in the end.
func TestUndoOfWhatKeepsChanging(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.load("undo")
	b.say("a")
	b.drain()
	looks := 0
	b.rdb.AddHook(before(called("undo"), func() {
		looks++
		b.rdb.RPush(b.ctx, b.k.Transcript(b.info().SessionID), "another program's")
	}))
	if _, err := b.client.Undo(b.ctx, key); !errors.Is(err, session.ErrBusy) {
		t.Errorf("error: %v", err)
	}
	expect.Equal(t, "looks", looks, 10)
}
