package boundedjson_test

import (
	"runtime"
	"strings"
	"testing"

	"turnstile/internal/protocol"
	"turnstile/internal/protocol/wire"
	"turnstile/internal/text/boundedjson"
	"turnstile/internal/text/strictjson"
	"turnstile/pkg/session"
)

// Programs that decode foreign text take little more memory than the text.
func TestDecodersAreBounded(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	attachments := `{"v": 1, "text": "a", "attachments": [{}` + strings.Repeat(",{}", 600_000) + `]}`
	for name, decode := range map[string]func(){
		"a payload":  func() { _, _ = wire.Decode([]byte(attachments), session.Limits{}) },
		"an entry":   func() { protocol.DecodeEntry(attachments) },
		"a setting":  func() { _ = strictjson.Decode([]byte(attachments), new(wire.Message)) },
		"a body":     func() { _ = strictjson.DecodeNamed([]byte(attachments), new(wire.Message)) },
		"two bodies": func() { _ = strictjson.DecodeNamed([]byte(attachments+attachments), new(wire.Message)) },
		"any value":  func() { _ = boundedjson.Unmarshal([]byte(attachments), new(any)) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		decode()
		runtime.ReadMemStats(&after)
		if made := after.TotalAlloc - before.TotalAlloc; made > 24<<20 {
			t.Errorf("%s of %d bytes: %d bytes were allocated", name, len(attachments), made)
		}
	}
}
