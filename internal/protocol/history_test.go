package protocol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"turnstile"
	"turnstile/internal/protocol"
	"turnstile/internal/protocol/lease"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
	"turnstile/test/redistest"
)

// wrote puts entries into the transcript of the session's next turn, and returns that turn.
func wrote(b *actors.Bench, lines ...string) *protocol.Claim {
	b.Helper()
	b.Say(turnstile.NewMessageID())
	h := b.Start()
	for _, line := range lines {
		expect.OK(b, b.Redis.RPush(b.Ctx, b.Keys.Transcript(h.Turn().TranscriptID), line).Err())
	}
	return h
}

// storedEntry is a turn's entry of that many bytes, as a transcript has it.
func storedEntry(t testing.TB, turn, text string, bytes int) string {
	t.Helper()
	e := session.Entry{Role: session.RoleTool, Turn: turn, Text: text + " ", Tool: &session.ToolUse{Name: "t"}}
	line, err := json.Marshal(e)
	expect.OK(t, err)
	if len(line) > bytes {
		t.Fatalf("an entry has %d bytes at least", len(line))
	}
	e.Text += strings.Repeat("x", bytes-len(line))
	line, err = json.Marshal(e)
	expect.OK(t, err)
	return string(line)
}

// names returns the entries' first words.
func names(entries []session.Entry) (names []string) {
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Text, " ")
		names = append(names, name)
	}
	return names
}

// An agent gets the newest whole turns that fit, and the last turn whatever its size.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	const most = 1000
	for name, c := range map[string]struct {
		entries string // turn and size of each
		want    string // the first that the agent gets
	}{
		"none":                       {"", ""},
		"all fit":                    {"a300 a300 b400", "0"},
		"one byte too many":          {"a301 b300 b400", "1"},
		"in mid-turn":                {"a100 b300 b400 c300 c200", "3"},
		"a turn as long as all":      {"a100 b500 b500", "1"},
		"the last one is too long":   {"a100 b100 b600 b600", "1"},
		"one entry is too long":      {"a100 b5000", "1"},
		"it is all that there is":    {"b5000", "0"},
		"the one before is too long": {"a100 b5000 c100", "2"},
		"no holes":                   {"a100 b1000 c100 d100", "2"},
		"many small ones":            {strings.Repeat("a100 ", 50) + "b400 c400 d100", "50"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, func(c *protocol.Config) { c.HistoryBytes = most })
			var lines, all []string
			for i, e := range strings.Fields(c.entries) {
				var size int
				_, err := fmt.Sscan(e[1:], &size)
				expect.OK(t, err)
				lines, all = append(lines, storedEntry(t, e[:1], fmt.Sprint(i), size)), append(all, fmt.Sprint(i))
			}
			past := historyOf(b, wrote(b, lines...))
			for len(all) > 0 && all[0] != c.want {
				all = all[1:]
			}
			expect.List(t, "entries", names(past.Entries), all...)
			expect.Equal(t, "left out", past.Older, len(lines)-len(all))
		})
	}
}

// An unreadable entry belongs to the turn of the entry before it, as for /undo.
func TestHistoryWithBrokenEntries(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.HistoryBytes = 500 })
	broken := strings.Repeat("?", 100)
	past := historyOf(b, wrote(b, storedEntry(t, "a", "0", 200), broken, storedEntry(t, "b", "1", 200), broken, storedEntry(t, "b", "2", 100)))
	expect.List(t, "entries", names(past.Entries), "1", "[an", "2")
	expect.Equal(t, "left out", past.Older, 2)
}

// Random transcripts are compared with the rule in plain Go.
func TestHistoryOfRandomTranscripts(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible
	for range 100 {
		most := 100 + random.IntN(4000)
		b := actors.NewBench(t, func(c *protocol.Config) { c.HistoryBytes = most })
		var lines []string
		turn := 0
		var starts []int // of turns
		for i := range random.IntN(60) {
			if i == 0 || random.IntN(4) == 0 {
				turn++
				starts = append(starts, i)
			}
			lines = append(lines, storedEntry(t, fmt.Sprint(turn), fmt.Sprint(i), 100+random.IntN(300)))
		}
		begin := len(lines) // the first line that the agent gets
		for i := len(starts) - 1; i >= 0; i-- {
			size := len(strings.Join(lines[starts[i]:], ""))
			if size > most && i < len(starts)-1 {
				break
			}
			begin = starts[i]
		}
		h := wrote(b, lines...)
		past := historyOf(b, h)
		if past.Older != begin || len(past.Entries) != len(lines)-begin {
			t.Fatalf("seed %d: %d of %d entries are in the history, want %d", seed, len(past.Entries), len(lines), len(lines)-begin)
		}
		for i, name := range names(past.Entries) {
			expect.Equal(t, "entry", name, fmt.Sprint(begin+i))
		}
		b.Finish(h)
		_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
		expect.OK(t, err)
	}
}

// trips counts round trips, and the longest result of a script in bytes.
type trips struct {
	n       atomic.Int64
	longest atomic.Int64
}

func (c *trips) around(cmds []redis.Cmder, send func() error) error {
	defer c.count(cmds...)
	return send()
}

func (c *trips) count(cmds ...redis.Cmder) {
	c.n.Add(1)
	for _, cmd := range cmds {
		if cmd, ok := cmd.(redistest.Reply); ok {
			size := 0
			lines, _ := cmd.Slice()
			for _, line := range lines {
				if text, ok := line.(string); ok {
					size += len(text)
				}
			}
			c.longest.Store(max(c.longest.Load(), int64(size)))
		}
	}
}

// The history of an ordinary turn costs one round trip. Of a transcript of hundreds of MB, only the
// agent's part is read, in replies that a slow network can carry.
func TestHistoryInPages(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	b := actors.NewBench(t)
	var short []string
	for i := range 200 {
		short = append(short, storedEntry(t, fmt.Sprint(i/4), fmt.Sprint(i), 1000))
	}
	h := wrote(b, short...)
	historyOf(b, h) // so that Redis knows the script
	count := &trips{}
	b.Redis.AddHook(actors.Hook(count.around))
	expect.Equal(t, "entries", len(historyOf(b, h).Entries), 200)
	expect.Equal(t, "round trips", count.n.Load(), 1)
	b.Finish(h)
	_, err := b.Client.Session(actors.Key).NewTranscript(b.Ctx)
	expect.OK(t, err)

	const page, most, size = 2 << 20, 16 << 20, 256 << 10
	var long []string
	for i := range 120 { // 30 MiB, twelve entries a turn
		long = append(long, storedEntry(t, fmt.Sprint(i/12), fmt.Sprint(i), size))
	}
	h = wrote(b, long...)
	count.n.Store(0)
	count.longest.Store(0)
	past := historyOf(b, h)
	expect.Equal(t, "entries", len(past.Entries), most/size/12*12)
	expect.Equal(t, "left out", past.Older, len(long)-most/size/12*12)
	if n := count.n.Load(); n > most/page+1 {
		t.Errorf("%d round trips", n)
	}
	if n := count.longest.Load(); n > page+size {
		t.Errorf("a reply of %d bytes", n)
	}
}

// History is read again while the lease lasts, as the moves are repeated.
func TestHistoryThroughFaults(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.HistoryBytes = 1000 })
	h := wrote(b, storedEntry(t, "a", "0", 600), storedEntry(t, "b", "1", 600), storedEntry(t, "b", "2", 600))
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	for name, err := range map[string]error{
		"reset": &net.OpError{Op: "read", Net: "tcp", Err: io.ErrUnexpectedEOF}, "loading": redistest.ReplyError("LOADING Redis is loading the dataset in memory"),
	} {
		for page := range 2 {
			pages := 0
			match := func(cmd redis.Cmder) bool {
				if !actors.Script("transcript_page")(cmd) {
					return false
				}
				pages++
				return pages > page
			}
			faults.FailBefore(match, 3, err)
			expect.List(t, fmt.Sprintf("%s at page %d", name, page), names(historyOf(b, h).Entries), "1", "2")
			faults.Clear()
		}
	}
	faults.LoseReply(actors.Script("transcript_page"), 2)
	faults.RunTwice(actors.Script("transcript_page"), 2)
	expect.List(t, "entries", names(historyOf(b, h).Entries), "1", "2")

	// An error of one of several commands hides no other.
	faults.Clear()
	expect.OK(t, b.Redis.Del(b.Ctx, b.Keys.State()).Err())
	expect.OK(t, b.Redis.LPush(b.Ctx, b.Keys.State(), "of a wrong type").Err())
	if _, err := h.History(b.Ctx); !redis.HasErrorPrefix(errors.Unwrap(err), "WRONGTYPE") {
		t.Errorf("error %v", err)
	}
}

func TestHistoryOfALostLease(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, func(c *protocol.Config) { c.SentinelTTL = 500 * time.Millisecond })
	h := wrote(b, storedEntry(t, "a", "0", 100))
	faults := &redistest.Faults{}
	b.Redis.AddHook(faults)
	faults.FailBefore(actors.Script("transcript_page"), -1, io.EOF)
	if _, err := h.History(h.Lease().Context()); !errors.Is(err, lease.ErrLost) {
		t.Errorf("error %v", err)
	}
}

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
	if n := b.Redis.MemoryUsage(b.Ctx, b.Keys.Journal()).Val(); n == 0 || n > 16<<20 {
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
