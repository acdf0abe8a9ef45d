package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

func TestParseSettings(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]session.QueueSettings{
		"collect":                     {Mode: session.ModeCollect},
		" reject \t cap:1 ":           {Mode: session.ModeReject, Cap: 1},
		"drop:old":                    {Drop: session.DropOld},
		"cap:10000 debounce:1h":       {Cap: wire.MaxQueueCap, Debounce: session.Millis(wire.MaxDebounce)},
		"steer drop:new debounce:1ms": {Mode: session.ModeSteer, Drop: session.DropNew, Debounce: session.Millis(time.Millisecond)},
		"collect debounce:0.5s cap:25 drop:summarize": {
			Mode: session.ModeCollect, Debounce: session.Millis(500 * time.Millisecond), Cap: 25, Drop: session.DropSummarize,
		},
	} {
		got, err := wire.ParseQueueSettings(words)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", words, got, err)
		}
		if again, err := wire.ParseQueueSettings(got.String()); err != nil || again != got {
			t.Errorf("%q reads back as %+v, %v", got, again, err)
		}
	}
}

func TestParseSettingsRefuses(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"":                    "they are empty",
		"sometimes":           `mode "sometimes"`,
		"cap:3 collect":       `"collect": write a mode first`,
		"collect queue":       `"queue": mode is given twice`,
		"cap:3 cap:4":         `"cap:4": cap is given twice`,
		"cap:0":               `cap "0"`,
		"cap:10001":           `cap "10001"`,
		"cap:many":            `cap "many"`,
		"debounce:0s":         `debounce "0s"`,
		"debounce:1us":        `debounce "1us"`,
		"debounce:61m":        `debounce "61m"`,
		"debounce:5":          `debounce "5"`,
		"drop:it":             `drop policy "it"`,
		"drop:":               `word "drop:"`,
		"mode:queue":          `word "mode:queue"`,
		"size:3":              `word "size:3"`,
		"often cap:x drop:it": `mode "often"`,
	} {
		got, err := wire.ParseQueueSettings(words)
		if !errors.Is(err, session.ErrInvalid) || got != (session.QueueSettings{}) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want an error with %q", words, got, err, want)
		}
	}
	_, err := wire.ParseQueueSettings("often cap:x drop:it")
	for _, want := range []string{"often", `cap "x"`, `policy "it"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error says nothing of %s: %v", want, err)
		}
	}
}

func TestSettingsOver(t *testing.T) {
	t.Parallel()
	base := wire.DefaultQueueSettings()
	if got := wire.Over(session.QueueSettings{}, base); got != base {
		t.Errorf("nothing over the defaults is %+v", got)
	}
	all := session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(time.Minute), Cap: 3, Drop: session.DropOld}
	if got := wire.Over(all, base); got != all {
		t.Errorf("everything over the defaults is %+v", got)
	}
	if got := wire.Over(session.QueueSettings{Cap: 3}, base); got.Cap != 3 || got.Mode != base.Mode || got.Drop != base.Drop || got.Debounce != base.Debounce {
		t.Errorf("a cap over the defaults is %+v", got)
	}
}

// The scripts read this JSON.
func TestSettingsJSON(t *testing.T) {
	t.Parallel()
	s := session.QueueSettings{Mode: session.ModeCollect, Debounce: session.Millis(1500 * time.Millisecond), Cap: 3, Drop: session.DropOld}
	text, err := json.Marshal(s)
	if err != nil || string(text) != `{"mode":"collect","debounce_ms":1500,"cap":3,"drop":"old"}` {
		t.Errorf("%s, %v", text, err)
	}
	var got session.QueueSettings
	if err := json.Unmarshal(text, &got); err != nil || got != s {
		t.Errorf("reads back as %+v, %v", got, err)
	}
	if text, err := json.Marshal(session.QueueSettings{}); err != nil || string(text) != "{}" {
		t.Errorf("nothing is %s, %v", text, err)
	}
	if err := json.Unmarshal([]byte(`{"debounce_ms":"1s"}`), &got); err == nil {
		t.Error("a debounce that is no number was read")
	}
}

func TestParseDrop(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "new", "old", "summarize"} {
		if d, err := wire.ParseDropPolicy(s); err != nil || string(d) != s {
			t.Errorf("%q: %q, %v", s, d, err)
		}
	}
	if _, err := wire.ParseDropPolicy("all"); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("error: %v", err)
	}
}
