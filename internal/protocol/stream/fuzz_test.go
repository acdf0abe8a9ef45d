package stream

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"turnstile/test/expect"
)

// Places in a stream are in one order, that of Redis, and each is read as it is written.
func FuzzEventID(f *testing.F) {
	f.Add("1795227266293-0.1", "1795227266293-0")
	f.Add("0-0", "18446744073709551615-18446744073709551615.9")
	f.Add("00001-01.0", "1-1.0")
	f.Add("99999999999999999999-0", "1-1.10")
	f.Add(strings.Repeat("long", 1000), "")
	f.Fuzz(func(t *testing.T, one, other string) {
		a, err := ParseEventID(one)
		if err != nil {
			expect.Line(t, "the error", err.Error(), expect.ErrorMost)
			return
		}
		whole, err := ParseEventID(a.Entry())
		if err != nil || whole.ms != a.ms || whole.seq != a.seq || a.After(whole) {
			t.Errorf("%q is in the entry %+v, %v", one, whole, err)
		}
		b, err := ParseEventID(other)
		if err == nil && (a.After(b) && b.After(a) || a != b && !a.After(b) && !b.After(a) || a == b && a.After(b)) {
			t.Errorf("%q and %q are in no order", one, other)
		}
	})
}

// Entries of a stream that anybody has written become events, and those have places that a reader can
// continue from. Redis gives no entry the ID 0-0.
func FuzzStreamEntry(f *testing.F) {
	f.Add("1795227266293-0", `{"type":"turn_started","turn":"t"}`, `{"type":"text","text":"a"}`)
	f.Add("1-1", `null`, `[]`)
	f.Add("0-0", `{"type":"turn_started"}`, `{"type":"text"}`)
	f.Add("x", `{"ID":"7","At":"2020-01-01T00:00:00Z","type":"a"}`, "\xff")
	f.Fuzz(func(t *testing.T, id, s, e string) {
		events := DecodeEvents(redis.XMessage{ID: id, Values: map[string]any{"s": s, "e": e, "x": 1}})
		last := EventID{}
		for i, event := range events {
			place, err := ParseEventID(event.ID)
			if of, bad := ParseEventID(id + ".0"); bad == nil && of != (EventID{}) && (err != nil || i > 0 && !place.After(last)) {
				t.Errorf("event %d of %q has the place %q, %v", i, id, event.ID, err)
			}
			if last = place; event.At.UnixMilli() < 0 && !strings.HasPrefix(id, "-") {
				t.Errorf("event %d of %q was at %s", i, id, event.At)
			}
		}
	})
}

// A result that anybody has stored becomes an outcome, of that message.
func FuzzResult(f *testing.F) {
	f.Add(`{"type":"turn_ended","status":"failed","turn":"t","error":"no","usage":{"cost_usd":1}}`, "archived")
	f.Add(`{"type":"text"}`, "archived")
	f.Add("\xff of a stock server", "completed")
	f.Fuzz(func(t *testing.T, result, state string) {
		o := StoredOutcome("s", "m1", state, result)
		if o.Session != "s" || o.ID != "m1" {
			t.Errorf("%q is the outcome of another message: %+v", result, o)
		}
		if _, err := json.Marshal(o); err != nil {
			t.Errorf("%q: %v", result, err)
		}
	})
}

// A request for notices that means nothing is ignored, and none watches more sessions than a worker
// does.
func FuzzWatch(f *testing.F) {
	f.Add(`{"reader":"reader-AAAAAAAAAA","ttl_ms":1000,"sessions":["a","b"]}`)
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, text string) {
		r := NewReaders()
		r.Add(text)
		if len(r.until) > watchedSessions {
			t.Errorf("%d sessions are watched", len(r.until))
		}
	})
}
