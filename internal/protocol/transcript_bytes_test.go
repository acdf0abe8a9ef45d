package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/internal/stored"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// memory is how much of Redis' memory the transcript takes, and how many entries it has.
func (b *bench) memory() (bytes, entries int64) {
	b.Helper()
	key := b.k.Transcript(b.info().SessionID)
	return b.rdb.MemoryUsage(b.ctx, key, 0).Val(), b.rdb.LLen(b.ctx, key).Val()
}

// wroteLong has a turn write an entry of about n bytes, with a plain end or another one.
func (b *bench) wroteLong(i, n int, plain bool) {
	b.Helper()
	b.say(fmt.Sprint("m", i))
	h := b.start()
	if !plain {
		expect.OK(b, b.c.Renew(b.ctx, []*sq.Claim{h})[0].Err)
	}
	entry := session.Entry{Role: session.RoleAssistant, Text: fmt.Sprintf("%04d", i) + strings.Repeat("x", n), Turn: h.Turn().ID}
	_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Entries: []session.Entry{entry}})
	expect.OK(b, err)
}

// A transcript takes 64 MiB of Redis' memory at most, whatever the number of its entries;
// the oldest go first.
func TestTranscriptIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 40 {
		b.wroteLong(i, 2_000_000, i%2 == 0)
	}
	bytes, entries := b.memory()
	if bytes > 64<<20 || entries < 20 {
		t.Errorf("%d bytes, %d entries", bytes, entries)
	}
	texts := b.transcript(b.info().SessionID)
	expect.Equal(t, "the newest", texts[len(texts)-1][:4], "0039")
	expect.Equal(t, "without a gap", texts[0][:4], fmt.Sprintf("%04d", 40-entries))
}

// It is bounded too where each turn writes more than one call frees of what an earlier,
// higher limit has left.
func TestTranscriptOfLongTurnsIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, transcriptBytes(8<<20))
	for i := range 4 {
		b.say(fmt.Sprint("m", i))
		h := b.start()
		end := sq.End{Status: session.StatusDone}
		for range 25 {
			end.Entries = append(end.Entries, session.Entry{Role: session.RoleAssistant, Text: strings.Repeat("x", 1_100_000), Turn: h.Turn().ID})
		}
		_, err := h.Finish(b.ctx, end)
		expect.OK(t, err)
		if bytes, entries := b.memory(); bytes > 8<<20 {
			t.Errorf("after %d turns: %d bytes, %d entries", i+1, bytes, entries)
		}
	}
}

// One entry has 4 MiB at most, and says how much is left out.
func TestEntryIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.say("a")
	h := b.start()
	long := strings.Repeat("<\x01", 3<<20)
	entries := []session.Entry{
		{Role: session.RoleUser, Text: "a", Turn: h.Turn().ID},
		{Role: session.RoleAssistant, Text: long, Turn: h.Turn().ID},
		{Role: session.RoleTool, Tool: &session.ToolUse{Name: "read", Output: []byte(`"` + strings.Repeat("x", 6<<20) + `"`)}, Turn: h.Turn().ID},
		{Role: session.RoleTool, Tool: &session.ToolUse{Name: long, CallID: long, Error: long}, Turn: h.Turn().ID},
	}
	expect.OK(t, h.Checkpoint(b.ctx, entries))
	if n := b.rdb.StrLen(b.ctx, b.k.Partial()).Val(); n > 16<<20 {
		t.Errorf("the checkpoint has %d bytes", n)
	}
	_, err := h.Finish(b.ctx, sq.End{Status: session.StatusDone, Entries: entries})
	expect.OK(t, err)
	expect.Equal(t, "the caller's own", len(entries[1].Text), len(long))
	lines, err := b.rdb.LRange(b.ctx, b.k.Transcript(h.Turn().SessionID), 0, -1).Result()
	expect.OK(t, err)
	expect.Equal(t, "entries", len(lines), 4)
	for i, line := range lines {
		e := stored.DecodeEntry(line)
		expect.Equal(t, "role", e.Role, entries[i].Role)
		if len(line) > 4<<20 || i > 0 && !strings.Contains(line, "bytes are left out") {
			t.Errorf("%d: %d bytes: %.100s", i, len(line), line)
		}
	}
}
