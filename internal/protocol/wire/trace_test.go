package wire_test

import (
	"strings"
	"testing"

	"turnstile/internal/protocol/wire"
)

func TestTraceParent(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for value, want := range map[string]string{
		"00-" + trace:                  "00-" + trace,
		"01-" + trace:                  "00-" + trace,
		"cc-" + trace + "-what-is-new": "00-" + trace,
		"":                             "",
		"00":                           "",
		"00-" + trace[:51]:             "",
		"00-" + trace + "-x":           "",
		"01-" + trace + "x":            "",
		"ff-" + trace:                  "",
		"00-" + strings.ToUpper(trace): "",
		"0x-" + trace:                  "",
		"00_" + trace:                  "",
		"00-" + strings.Replace(trace, "-", "_", 1):          "",
		"00-" + strings.Replace(trace, "b", "g", 1):          "",
		"00-" + trace[:51] + "\n":                            "",
		"00-" + strings.Repeat("0", 32) + trace[32:]:         "",
		"00-" + trace[:33] + strings.Repeat("0", 16) + "-01": "",
		" 00-" + trace: "",
	} {
		if got := wire.TraceParent(value); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}
