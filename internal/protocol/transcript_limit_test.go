package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func transcriptBytes(n int) setup { return func(c *sq.Config) { c.TranscriptBytes = n } }

// What a worker of the version before has written is measured with the next turn's, and so
// is what many short turns have written.
func TestTranscriptOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for name, plain := range map[string]bool{"plain": true, "not plain": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, transcriptBytes(limit))
			b.wroteLong(0, 10, plain)
			k := b.k.Transcript(b.info().SessionID)
			for i := range 30 { // it counts nothing
				expect.OK(t, b.rdb.RPush(b.ctx, k, `{"role":"user","text":"`+strings.Repeat("y", 50_000+i)+`"}`).Err())
				expect.OK(t, b.rdb.HIncrBy(b.ctx, b.k.Run(), "entries", 1).Err())
			}
			for i := range 40 {
				b.wroteLong(100+i, 30_000, plain)
			}
			bytes, entries := b.memory()
			// Between two measurements there are 32 entries of less than 64 KiB.
			if bytes > limit+32*65536 || entries < 15 {
				t.Errorf("%d bytes, %d entries", bytes, entries)
			}
			b.wroteLong(999, 70_000, plain)
			if bytes, _ := b.memory(); bytes > limit {
				t.Errorf("measured: %d bytes", bytes)
			}
		})
	}
}

// A lower limit takes effect by and by: one turn's end frees about 16 MiB.
func TestLowerTranscriptBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 24 {
		b.wroteLong(i, 2_000_000, true)
	}
	before, _ := b.memory()
	b.c = newWorker(t, b.rdb, "narrow", transcriptBytes(2<<20))
	b.wroteLong(30, 70_000, true)
	after, _ := b.memory()
	if freed := before - after; freed < 15<<20 || freed > 24<<20 {
		t.Errorf("%d of %d bytes were freed", freed, before)
	}
	for i := range 3 {
		b.wroteLong(31+i, 70_000, i%2 == 0)
	}
	if bytes, _ := b.memory(); bytes > 2<<20 {
		t.Errorf("then: %d bytes", bytes)
	}
}

// The newest entry stays, however long; an undo and what an agent keeps do not notice that
// the beginning has gone.
func TestWhatATrimmedTranscriptKeeps(t *testing.T) {
	t.Parallel()
	b := newBench(t, transcriptBytes(1<<20), func(c *sq.Config) { c.Limits = session.Limits{Payload: 8 << 20} })
	b.wroteLong(0, 400_000, true)
	b.say("b")
	h := b.start()
	entries := h.Turn().Entries
	expect.OK(t, h.StoreState(b.ctx, []byte(`"kept"`), 2))
	_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Entries: []session.Entry{
		{Role: session.RoleUser, Text: "b", Turn: h.Turn().ID}, {Role: session.RoleAssistant, Text: strings.Repeat("x", 3<<20), Turn: h.Turn().ID},
	}})
	expect.OK(t, err)
	texts := b.transcript(b.info().SessionID)
	expect.Equal(t, "entries", len(texts), 1)
	b.say("c")
	h = b.start()
	expect.Equal(t, "written so far", h.Turn().Entries, entries+2)
	past, err := h.History(b.ctx)
	expect.OK(t, err)
	expect.Equal(t, "kept", string(past.State), `"kept"`)
	b.finish(h)
	u, err := b.client.Undo(b.ctx, key)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Entries, " ", u.Text), "2 c")
	expect.Equal(t, "entries", len(b.transcript(b.info().SessionID)), 1)
}
