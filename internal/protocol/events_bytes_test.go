package protocol_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// streamed returns the sizes of the stream's events, the oldest first: the bytes of those longer
// than 2 KiB, and the numbers of these and of the others.
func streamed(b *actors.Bench) (bytes, large, small int) {
	b.Helper()
	all, err := b.Redis.XRange(b.Ctx, b.Keys.Events(), "-", "+").Result()
	expect.OK(b, err)
	for _, m := range all {
		n := 0
		for _, text := range m.Values {
			n += len(text.(string))
		}
		if n > 2048 {
			bytes, large = bytes+n, large+1
		} else {
			small++
		}
	}
	return bytes, large, small
}

// notice emits an event of about n bytes.
func notice(b *actors.Bench, h *protocol.Claim, n int) {
	b.Helper()
	expect.OK(b, h.Emit(b.Ctx, []session.Event{{Type: session.EventNotice, Turn: h.Turn().ID, Text: strings.Repeat("x", n)}}))
}

// The large events of a stream have at most as many bytes as the limit and, once there were as
// many, at least about half of their share of three quarters, whichever script writes them.
func TestStreamIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	ends := func(end func(b *actors.Bench, h *protocol.Claim, text string)) func(b *actors.Bench, i int) {
		return func(b *actors.Bench, i int) {
			b.Say(fmt.Sprint("m", i))
			h := b.Claim()
			expect.OK(b, h.Promote(b.Ctx))
			end(b, h, strings.Repeat("x", 60_000+1000*(i%50)))
		}
	}
	for name, tell := range map[string]func(b *actors.Bench, i int){
		"emit": ends(func(b *actors.Bench, h *protocol.Claim, text string) {
			notice(b, h, len(text))
			b.Finish(h)
		}),
		"finish": ends(func(b *actors.Bench, h *protocol.Claim, text string) {
			expect.OK(b, b.Worker.Renew(b.Ctx, []*protocol.Claim{h})[0].Err) // so it takes the full path
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: text})
			expect.OK(b, err)
		}),
		"finish, fast path": ends(func(b *actors.Bench, h *protocol.Claim, text string) {
			_, err := h.Finish(b.Ctx, protocol.End{Status: session.StatusDone, Reply: text})
			expect.OK(b, err)
		}),
		"requeue": ends(func(b *actors.Bench, h *protocol.Claim, text string) {
			expect.OK(b, h.Requeue(b.Ctx, text))
			b.Drain()
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := actors.NewBench(t, actors.EventsBytes(limit), func(c *protocol.Config) { c.StuckLimit = 1000 })
			most := 0
			for i := range 60 {
				tell(b, i)
				bytes, large, _ := streamed(b)
				if bytes > limit {
					t.Fatalf("%d: %d bytes in %d large events", i, bytes, large)
				}
				if most = max(most, bytes); most > limit*3/8 && bytes < limit*3/8-110_000 || large == 0 {
					t.Errorf("%d: %d bytes are left of %d", i, bytes, most)
				}
			}
			if most < limit*9/16 {
				t.Errorf("%d bytes at most", most)
			}
		})
	}
}

// A single event that is longer than the limit stays, without other large ones, until the next
// large one.
func TestEventLongerThanTheLimit(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t, actors.EventsBytes(100_000))
	b.Say("a")
	h := b.Start()
	for range 3 {
		notice(b, h, 30_000)
	}
	for range 2 {
		notice(b, h, 300_000)
		bytes, large, _ := streamed(b)
		expect.Equal(t, "large events", large, 1)
		expect.Equal(t, "it is the long one", bytes > 300_000, true)
	}
	notice(b, h, 30_000)
	bytes, large, _ := streamed(b)
	expect.Equal(t, "then", fmt.Sprint(large, bytes < 31_000), "1 true")
	notice(b, h, 15_000)
	_, large, _ = streamed(b)
	expect.Equal(t, "and then", large, 2)
}

// Short events are bounded by their number alone: they cost no additional command, and displace no
// large ones before that.
func TestShortEventsAreNotCountedInBytes(t *testing.T) {
	t.Parallel()
	b := actors.NewBench(t)
	b.Say("a")
	h := b.Start()
	for range 300 {
		notice(b, h, 1500)
	}
	_, large, small := streamed(b)
	expect.Equal(t, "large and small", fmt.Sprint(large, small >= 300), "0 true")
	expect.Equal(t, "counted", b.Redis.HExists(b.Ctx, b.Keys.Run(), "stream").Val(), false)
}

// A finish on the fast path costs 15 commands, its own call included. A long reply costs two more, and
// a third one when a generation is over.
func TestCommandsOfAFastFinish(t *testing.T) {
	t.Parallel()
	f := newFiller(t)
	for reply, commands := range map[int]int{10: 15, 5000: 17, 6 << 20: 18} {
		b := f.bench(t)
		b.SayAll("a", "b")
		h := b.Start()
		end := protocol.End{Status: session.StatusDone, Reply: strings.Repeat("x", reply), Entries: []session.Entry{{Text: "x"}}}
		works, err := f.count(func() error { _, err := h.Finish(b.Ctx, end); return err })
		expect.OK(t, err)
		expect.Equal(t, fmt.Sprintf("commands for %d bytes (%v)", reply, works), works["finish_fast"].calls, commands)
		f.clean()
	}
}

// Every event is written by append_event, which bounds the stream.
func TestEventsAreWrittenInOnePlace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lua/*.lua")
	expect.OK(t, err)
	library, err := filepath.Glob("lua/lib/*.lua")
	expect.OK(t, err)
	files = append(files, library...)
	for _, file := range files {
		text, err := os.ReadFile(file)
		expect.OK(t, err)
		if strings.Contains(string(text), "XADD") != (file == "lua/lib/events.lua") {
			t.Errorf("%s: XADD belongs into lib/events.lua, and nowhere else", file)
		}
	}
}
