package wire_test

import (
	"encoding/json"
	"errors"
	"testing"

	"turnstile/internal/protocol/wire"
	"turnstile/pkg/session"
)

// Days are read, in JSON too, but never written: programs of an older version do not know them.
func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`"1d12h"`: `"36h0m0s"`, `"30d"`: `"720h0m0s"`, `"90s"`: `"1m30s"`} {
		var d wire.Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got, err := json.Marshal(d); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "soon", "1d-1h", "-1d", "5"} {
		if d, err := wire.ParseDuration(text); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%q: %s, %v", text, d, err)
		}
	}
}
