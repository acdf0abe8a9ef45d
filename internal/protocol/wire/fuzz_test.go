package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

func refused(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, session.ErrInvalid) {
		t.Errorf("%s: %v does not wrap ErrInvalid", what, err)
	}
	expect.Line(t, "the error", err.Error(), expect.ErrorMost)
}

// A payload of any sender is refused with one line, or is a valid message, which this version sends on
// as it is.
func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"v":1,"text":"hello","mode":"interrupt","meta":{"a":"b"},"attachments":[{"name":"f","url":"http://x"}],"expires_in":"1h30m"}`))
	f.Add([]byte(`{"v":1,"text":"a mode and a field of a newer sender","mode":"later","priority":3}`))
	f.Add([]byte(`{"v":1,"TEXT":"\ud800\u0000","mode":"collect","text":"x"}`))
	f.Add([]byte(`{"v":2,"text":"x"}`))
	f.Add([]byte(`{"v":1,"text":"x","expires_in":"` + strings.Repeat("long", 1000) + `"}`))
	f.Add([]byte(`{"v":1,"text":"x","attachments":[{"name":"` + strings.Repeat("long", 1000) + `"}]}`))
	f.Add([]byte(`{"v":1,"text":` + strings.Repeat("1", 1000) + `}`))
	f.Add([]byte(`{"v":1,"text":"x","mode":["` + strings.Repeat("long", 1000) + `"]}`))
	f.Add([]byte(`{"v":1,"text":"","too_long":123}`))
	f.Add([]byte(`{"v":1,"text":"","request":{"functions":[{"name":"f","parameters":{"type": "object"}}],"temperature":1,"past":[{"role":"user","text":"<"}],"results":[{"call_id":"c","output":"o"}]}}`))
	f.Add([]byte(`{"v":1,"text":"x","mode":"steer","request":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.Decode(data, session.Limits{})
		if err != nil {
			refused(t, "a payload", err)
			return
		}
		if err := m.Validate(session.Limits{}); err != nil {
			t.Errorf("decoded, and then refused: %v", err)
		}
		again, err := m.Payload()
		expect.OK(t, err)
		switch m.Mode { // which the payload leaves out
		case session.ModeCollect, session.ModeSteer, session.ModeRollback:
			m.Mode = ""
		}
		if len(m.Meta) == 0 {
			m.Meta = nil
		}
		if len(m.Attachments) == 0 {
			m.Attachments = nil
		}
		got, err := wire.Decode(again, session.Limits{MessageBytes: math.MaxInt})
		if err == nil && m.Request != nil { // its JSON loses white space
			third, err := got.Payload()
			expect.OK(t, err)
			expect.Equal(t, "the payload once more", string(third), string(again))
			got.Request = m.Request
		}
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%s becomes %s: %+v, %v", data, again, got, err)
		}
		if bytes.ContainsAny(again, "\n\r") || !utf8.Valid(again) {
			t.Errorf("%q is not one line of UTF-8", again)
		}
	})
}

// The text of a duration parses to the same duration.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"500ms", "1d12h", "30d", "-1h", "65535d24h", "1d-1h", "9223372036854775807ns", "0", "1d1d"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := wire.ParseDuration(text)
		if err != nil {
			refused(t, "a duration", err)
			return
		}
		if days, _, ok := strings.Cut(text, "d"); ok && d < 0 {
			t.Errorf("%q with %s days is %s", text, days, d)
		} else if plain, err := time.ParseDuration(text); err == nil && plain != d {
			t.Errorf("%q is %s, not %s", text, d, plain)
		}
		written, err := wire.Duration(d).MarshalText()
		expect.OK(t, err)
		var again wire.Duration
		if err := again.UnmarshalText(written); err != nil || time.Duration(again) != d {
			t.Errorf("%q is %s, and %q is %s, %v", text, d, written, time.Duration(again), err)
		}
	})
}

// The words of /queue mean the same when they are written back, as words and as JSON.
func FuzzQueueSettings(f *testing.F) {
	for _, words := range []string{"collect debounce:0.5s cap:25 drop:summarize", "steer", "cap:10000 drop:old", "cap:0", "debounce:1h1ns", "debounce:1.5ms", "mode:queue", "queue queue", "\xff:1 \xff:1"} {
		f.Add(words)
	}
	f.Add(strings.Repeat("\x01 ", 1000))
	f.Fuzz(func(t *testing.T, words string) {
		s, err := wire.ParseQueueSettings(words)
		if err != nil {
			if n := len(err.Error()); n > 20*expect.ErrorMost {
				t.Errorf("the error has %d bytes", n)
			}
			for line := range strings.Lines(err.Error()) {
				expect.Line(t, "a line of the error", strings.TrimSuffix(line, "\n"), expect.ErrorMost)
			}
			return
		}
		if again, err := wire.ParseQueueSettings(s.String()); err != nil || again != s {
			t.Errorf("%q is %+v, and %q is %+v, %v", words, s, s, again, err)
		}
		data, err := json.Marshal(s)
		expect.OK(t, err)
		var stored session.QueueSettings
		if err := json.Unmarshal(data, &stored); err != nil || stored != s {
			t.Errorf("%q is stored as %s: %+v, %v", words, data, stored, err)
		}
	})
}

// Stored settings of any content are read as a Redis script reads them: as a number of
// milliseconds.
func FuzzStoredSettings(f *testing.F) {
	for _, text := range []string{`{"mode":"collect","debounce_ms":1500,"cap":3,"drop":"old"}`, `{"debounce_ms":1e300}`, `{"debounce_ms":-1e300}`, `{"debounce_ms":0.5}`, `{"cap":1e9}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s session.QueueSettings
		var raw struct {
			MS *float64 `json:"debounce_ms"`
		}
		if json.Unmarshal([]byte(text), &s) != nil || json.Unmarshal([]byte(text), &raw) != nil || raw.MS == nil {
			return
		}
		if ms := *raw.MS; (ms < 0) != (s.Debounce < 0) && s.Debounce != 0 {
			t.Errorf("%s has a debounce of %s", text, time.Duration(s.Debounce))
		}
	})
}

// A route that is valid can stand in the JSON of a delivery.
func FuzzRoute(f *testing.F) {
	f.Add("chat", []byte(`{"id":1}`))
	f.Add("-", []byte("\"\xff\""))
	f.Add("", []byte(`nul`))
	f.Add("A b\n", []byte(`"\u2028"`))
	f.Fuzz(func(t *testing.T, to string, context []byte) {
		if err := (wire.Route{To: to, Context: context}).Validate(); err != nil {
			refused(t, "a route", err)
			return
		}
		if strings.ContainsAny(to, " \n") {
			t.Errorf("%q names a destination", to)
		}
		body := append([]byte(`{"context":`), context...)
		if body = append(body, '}'); len(context) > 0 && (!json.Valid(body) || !utf8.Valid(body)) {
			t.Errorf("%q is no JSON of UTF-8", body)
		}
	})
}
