package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// A prompt has the turn's traceparent as ACP reserves it, and none of the turn before.
func TestTraceParent(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	path := filepath.Join(t.TempDir(), "log")
	w := warmed(t, acting(t, "log="+path), turnWith(t))
	at := turnWith(t, "text a")
	at.TraceParent = trace
	_, err := runWarm(t, w, at)
	expect.OK(t, err)
	_, err = runWarm(t, w, turnWith(t, "text b"))
	expect.OK(t, err)
	text, err := os.ReadFile(path)
	expect.OK(t, err)
	var metas []bool
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " session/prompt ") {
			metas = append(metas, strings.Contains(line, `"_meta":{"traceparent":"`+trace+`"}`))
		}
	}
	if len(metas) != 2 || !metas[0] || metas[1] {
		t.Errorf("%v in\n%s", metas, text)
	}
}
