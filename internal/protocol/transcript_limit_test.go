package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

func transcriptBytes(n int) actors.Setup { return func(c *protocol.Config) { c.TranscriptBytes = n } }

// Entries that were not measured, as those of many short turns, are measured with a later turn's.
func TestTranscriptIsMeasuredLater(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for name, plain := range map[string]bool{"fast path": true, "full path": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, transcriptBytes(limit))
			wroteLong(b, 0, 10, plain)
			k := b.Keys.Transcript(b.Info().TranscriptID)
			for i := range 30 { // it counts nothing
				expect.OK(t, b.Redis.RPush(b.Ctx, k, `{"role":"user","text":"`+strings.Repeat("y", 50_000+i)+`"}`).Err())
				expect.OK(t, b.Redis.HIncrBy(b.Ctx, b.Keys.Run(), "entries", 1).Err())
			}
			for i := range 40 {
				wroteLong(b, 100+i, 30_000, plain)
			}
			bytes, entries := memory(b)
			// Between two measurements there are 32 entries of less than 64 KiB.
			if bytes > limit+32*65536 || entries < 15 {
				t.Errorf("%d bytes, %d entries", bytes, entries)
			}
			wroteLong(b, 999, 70_000, plain)
			if bytes, _ := memory(b); bytes > limit {
				t.Errorf("measured: %d bytes", bytes)
			}
		})
	}
}

// A lower limit takes effect step by step: the end of a turn frees about 16 MiB.
func TestLowerTranscriptBytes(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	b := actors.NewBench(t)
	for i := range 24 {
		wroteLong(b, i, 2_000_000, true)
	}
	before, _ := memory(b)
	b.Worker = actors.NewWorker(t, b.Redis, "narrow", transcriptBytes(2<<20))
	wroteLong(b, 30, 70_000, true)
	after, _ := memory(b)
	if freed := before - after; freed < 15<<20 || freed > 24<<20 {
		t.Errorf("%d of %d bytes were freed", freed, before)
	}
	for i := range 3 {
		wroteLong(b, 31+i, 70_000, i%2 == 0)
	}
	if bytes, _ := memory(b); bytes > 2<<20 {
		t.Errorf("then: %d bytes", bytes)
	}
}

// The newest entry stays, however long. Undo and agent state do not depend on the removed
// beginning.
func TestWhatATrimmedTranscriptKeeps(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, transcriptBytes(1<<20), func(c *protocol.Config) { c.Limits = session.Limits{MessageBytes: 8 << 20} })
	wroteLong(b, 0, 400_000, true)
	b.Say("b")
	h := b.Start()
	entries := h.Turn().Entries
	expect.OK(t, h.StoreState(b.Ctx, []byte(`"kept"`), 2))
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Entries: []session.Entry{
		{Role: session.RoleUser, Text: "b", Turn: h.Turn().ID}, {Role: session.RoleAssistant, Text: strings.Repeat("x", 3<<20), Turn: h.Turn().ID},
	}})
	expect.OK(t, err)
	texts := b.Transcript(b.Info().TranscriptID)
	expect.Equal(t, "entries", len(texts), 1)
	b.Say("c")
	h = b.Start()
	expect.Equal(t, "written so far", h.Turn().Entries, entries+2)
	past, err := h.History(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "kept", string(past.State), `"kept"`)
	b.Finish(h)
	u, err := b.Client.Session(actors.Key).Undo(b.Ctx)
	expect.OK(t, err)
	expect.Equal(t, "undone", fmt.Sprint(u.Entries, " ", u.Text), "2 c")
	expect.Equal(t, "entries", len(b.Transcript(b.Info().TranscriptID)), 1)
}
