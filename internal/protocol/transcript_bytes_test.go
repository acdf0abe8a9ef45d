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
