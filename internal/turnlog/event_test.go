package turnlog

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// Whatever an agent emits, each event and each entry is stored as one line of UTF-8, and is read as it
// was stored.
func FuzzEvents(f *testing.F) {
	deep := strings.Repeat("[", 10000) + strings.Repeat("]", 10000)
	f.Add("ls", "c1", []byte(`{"a":1}`), []byte(`"out"`), []byte(`{"id":1}`), "", 0.5, int64(10))
	f.Add("ls", "c1", []byte(`{"a":`), []byte("\"\xff\""), []byte(" [ 1,\n2 ] "), "no", 1e308, int64(1<<62))
	f.Add("\xff", "\x00", []byte(deep), []byte(`"\ud800"`), []byte(nil), "\u2028", -1e308, int64(-1<<63))
	f.Fuzz(func(t *testing.T, name, id string, input, output, data []byte, failed string, cost float64, tokens int64) {
		raw := func(b []byte) json.RawMessage { return append(json.RawMessage(nil), b...) }
		usage := &session.Usage{Model: name, InputTokens: tokens, CachedTokens: tokens, OutputTokens: tokens, CostUSD: cost}
		all := newEntries(&protocol.ClaimedTurn{ID: "t"})
		for _, e := range []agent.Event{
			{Type: session.EventText, Text: name},
			{Type: session.EventToolStart, Name: name, CallID: id, Input: raw(input)},
			{Type: session.EventToolEnd, CallID: id, Output: raw(output), Error: failed},
			{Type: session.EventRaw, Name: name, Data: raw(data)},
			{Type: session.EventUsage, Usage: usage}, {Type: session.EventUsage, Usage: usage},
		} {
			e = storable(e)
			all.add(e, 1)
			event := streamed("t", e)
			var again, last session.Event
			readAs(t, line(t, event), &again)
			readAs(t, line(t, again), &last)
			if !reflect.DeepEqual(again, last) {
				t.Errorf("%.200q is read as another event", line(t, event))
			}
		}
		for _, e := range all.all("", 1, false) {
			again := protocol.DecodeEntry(line(t, e))
			if again.Role != e.Role || !reflect.DeepEqual(protocol.DecodeEntry(line(t, again)), again) {
				t.Errorf("%.200q is read as another entry", line(t, e))
			}
		}
		if u := all.usage; cost >= 0 && u.CostUSD < cost && !math.IsInf(cost, 0) {
			t.Errorf("twice %v is %v", cost, u.CostUSD)
		}
		if u := all.usage; tokens >= 0 && (u.InputTokens < tokens || u.OutputTokens < tokens || u.CachedTokens < tokens) {
			t.Errorf("twice %d is %+v", tokens, u)
		}
	})
}

// readAs reads line's output.
func readAs(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Errorf("%.200q: %v", text, err)
	}
}

// line is a value as it is stored.
func line(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	expect.OK(t, err)
	if bytes.ContainsRune(text, '\n') || !utf8.Valid(text) {
		t.Errorf("%.200q is no line of UTF-8", text)
	}
	return string(text)
}
