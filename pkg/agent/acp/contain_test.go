package acp

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
)

// brittle is a peer that panics at what it is told.
type brittle struct{}

func (brittle) piece([]byte) bool                              { return false }
func (brittle) notified(method string, _ json.RawMessage)      { panic("at " + method) }
func (brittle) asked(json.RawMessage, string, json.RawMessage) {}

type closer struct{ io.Writer }

func (closer) Close() error { return nil }

// A line that makes its reader panic is the end of its agent, and not of the worker.
func TestAPanicEndsTheAgentAlone(t *testing.T) {
	t.Parallel()
	const line = `{"jsonrpc":"2.0","method":"x","params":{}}`
	for name, text := range map[string]string{"with more behind it": line + "\n" + line + "\n", "the last": line} {
		var log strings.Builder
		c := newConn(closer{io.Discard}, brittle{}, slog.New(slog.NewTextHandler(&log, nil)))
		c.read(strings.NewReader(text))
		<-c.closed
		if got := fmt.Sprint(c.cause); got != "it made its reader panic: at x" {
			t.Errorf("%s: %s", name, got)
		}
		if !strings.Contains(log.String(), "contain_test.go") {
			t.Errorf("%s: the log has no stack: %s", name, log.String())
		}
	}
}
