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

// memory returns the memory that Redis uses for the transcript, and the number of its entries.
func memory(b *actors.Bench) (bytes, entries int64) {
	b.Helper()
	key := b.Keys.Transcript(b.Info().TranscriptID)
	return b.Redis.MemoryUsage(b.Ctx, key, 0).Val(), b.Redis.LLen(b.Ctx, key).Val()
}

// wroteLong lets a turn write an entry of about n bytes, and end on the fast path or the full path.
func wroteLong(b *actors.Bench, i, n int, plain bool) {
	b.Helper()
	b.Say(fmt.Sprint("m", i))
	h := b.Start()
	if !plain {
		expect.OK(b, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err)
	}
	entry := session.Entry{Role: session.RoleAssistant, Text: fmt.Sprintf("%04d", i) + strings.Repeat("x", n), Turn: h.Turn().ID}
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Entries: []session.Entry{entry}})
	expect.OK(b, err)
}

// A transcript uses at most so much of Redis' memory, by default 64 MiB, whatever the number of its
// entries; the oldest go first.
func TestTranscriptIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	expect.Equal(t, "the default", actors.NewBench(t).Worker.Config().TranscriptBytes, 64<<20)
	b := actors.NewBench(t, transcriptBytes(8<<20))
	for i := range 40 {
		wroteLong(b, i, 250_000, i%2 == 0)
	}
	bytes, entries := memory(b)
	if bytes > 8<<20 || entries < 20 {
		t.Errorf("%d bytes, %d entries", bytes, entries)
	}
	texts := b.Transcript(b.Info().TranscriptID)
	expect.Equal(t, "the newest", texts[len(texts)-1][:4], "0039")
	expect.Equal(t, "without a gap", texts[0][:4], fmt.Sprintf("%04d", 40-entries))
}

// It is bounded even if each turn writes more than one call frees, after a higher limit was
// lowered.
func TestTranscriptOfLongTurnsIsBounded(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	b := actors.NewBench(t, transcriptBytes(8<<20))
	for i := range 3 {
		b.Say(fmt.Sprint("m", i))
		h := b.Start()
		end := protocol.End{Status: session.StatusDone}
		for range 25 {
			end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: strings.Repeat("x", 1_100_000), Turn: h.Turn().ID})
		}
		_, err := h.Finish(b.Ctx, end)
		expect.OK(t, err)
		if bytes, entries := memory(b); bytes > 8<<20 {
			t.Errorf("after %d turns: %d bytes, %d entries", i+1, bytes, entries)
		}
	}
}

// An entry has at most 4 MiB, and says how much is left out.
func TestEntryIsBounded(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	long := strings.Repeat("<\x01", 1<<20)
	entries := []session.Entry{
		{Role: session.RoleUser, Text: "a", Turn: h.Turn().ID},
		{Role: session.RoleAssistant, Text: long, Turn: h.Turn().ID},
		{Role: session.RoleTool, Tool: &session.ToolUse{Name: "read", Output: []byte(`"` + strings.Repeat("x", 6<<20) + `"`)}, Turn: h.Turn().ID},
		{Role: session.RoleTool, Tool: &session.ToolUse{Name: long, CallID: long, Error: long}, Turn: h.Turn().ID},
	}
	expect.OK(t, actors.Checkpoint(b.Ctx, h, entries))
	if n := b.Redis.StrLen(b.Ctx, b.Keys.Partial()).Val(); n > 16<<20 {
		t.Errorf("the checkpoint has %d bytes", n)
	}
	_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Entries: entries})
	expect.OK(t, err)
	expect.Equal(t, "the caller's own", len(entries[1].Text), len(long))
	lines, err := b.Redis.LRange(b.Ctx, b.Keys.Transcript(h.Turn().TranscriptID), 0, -1).Result()
	expect.OK(t, err)
	expect.Equal(t, "entries", len(lines), 4)
	for i, line := range lines {
		e := protocol.DecodeEntry(line)
		expect.Equal(t, "role", e.Role, entries[i].Role)
		if len(line) > 4<<20 || i > 0 && !strings.Contains(line, "bytes are left out") {
			t.Errorf("%d: %d bytes: %.100s", i, len(line), line)
		}
	}
}

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
