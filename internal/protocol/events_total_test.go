package protocol_test

import (
	"strings"
	"testing"

	sq "turnstile/internal/protocol"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// All events of a stream together, short and long ones, have no more bytes than the limit.
func TestAllEventsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	for name, cap := range map[string]int{"few": 100, "many": 3000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 1 << 20
			b := newBench(t, eventsBytes(limit), func(c *sq.Config) { c.EventsCap = cap })
			b.say("a")
			h := b.start()
			most := 0
			for i := range 200 {
				var events []session.Event
				for j := range 20 {
					n := 1800 // a short one, as far as the number of these allows
					if j%10 == 0 {
						n = 10_000 + 100*i
					}
					events = append(events, session.Event{Type: session.EventNotice, Turn: h.Turn().ID, Text: strings.Repeat("x", n)})
				}
				expect.OK(t, h.Emit(b.ctx, events))
				if i%10 == 9 {
					most = max(most, b.allStreamed())
				}
			}
			if most > limit || most < limit/4 {
				t.Errorf("%d bytes", most)
			}
		})
	}
}

// allStreamed is how many bytes the stream's events have.
func (b *bench) allStreamed() (n int) {
	b.Helper()
	all, err := b.rdb.XRange(b.ctx, b.k.Events(), "-", "+").Result()
	expect.OK(b, err)
	for _, m := range all {
		for _, text := range m.Values {
			n += len(text.(string))
		}
	}
	return n
}
