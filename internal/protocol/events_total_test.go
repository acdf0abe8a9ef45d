package protocol_test

import (
	"strings"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/actors"
	"turnstile/test/expect"
)

// All events of a stream together, short and long ones, have no more bytes than the limit.
func TestAllEventsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	for name, cap := range map[string]int{"few": 100, "many": 3000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 1 << 20
			b := actors.NewBench(t, actors.EventsBytes(limit), func(c *protocol.Config) { c.EventsCap = cap })
			b.Say("a")
			h := b.Start()
			most := 0
			for i := range 200 {
				var events []session.Event
				for j := range 20 {
					n := 1800 // a short one, while there is room for short ones
					if j%10 == 0 {
						n = 10_000 + 100*i
					}
					events = append(events, session.Event{Type: session.EventNotice, Turn: h.Turn().ID, Text: strings.Repeat("x", n)})
				}
				expect.OK(t, h.Emit(b.Ctx, events))
				if i%10 == 9 {
					most = max(most, allStreamed(b))
				}
			}
			if most > limit || most < limit/4 {
				t.Errorf("%d bytes", most)
			}
		})
	}
}

// allStreamed is how many bytes the stream's events have.
func allStreamed(b *actors.Bench) (n int) {
	b.Helper()
	all, err := b.Redis.XRange(b.Ctx, b.Keys.Events(), "-", "+").Result()
	expect.OK(b, err)
	for _, m := range all {
		for _, text := range m.Values {
			n += len(text.(string))
		}
	}
	return n
}
