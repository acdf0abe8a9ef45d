package acp

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// brittle is a peer that panics at every call.
type brittle struct{}

func (brittle) piece([]byte) bool                                  { return false }
func (brittle) notified(method string, _ json.RawMessage)          { panic("at " + method) }
func (brittle) requested(json.RawMessage, string, json.RawMessage) {}

type closer struct{ io.Writer }

func (closer) Close() error { return nil }

// A line that makes its reader panic ends its agent and not the worker.
func TestAPanicEndsTheAgentAlone(t *testing.T) {
	t.Parallel()
	const line = `{"jsonrpc":"2.0","method":"x","params":{}}`
	for name, text := range map[string]string{"with more behind it": line + "\n" + line + "\n", "the last": line} {
		var log strings.Builder
		c := newConn(closer{io.Discard}, brittle{}, slog.New(slog.NewTextHandler(&log, nil)))
		c.read(strings.NewReader(text))
		<-c.closed
		if got := fmt.Sprint(c.cause); got != "reading it panicked: at x" {
			t.Errorf("%s: %s", name, got)
		}
		if !strings.Contains(log.String(), "contain_test.go") {
			t.Errorf("%s: the log has no stack: %s", name, log.String())
		}
	}
}

// A panic blocks nothing that comes after it: the turn ends, and so does its agent.
func TestAPanicLeavesNothingLocked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at    session.EventType
		lines []string
	}{
		"at a question": {session.EventToolStart, []string{"ask " + wantsPermission, "hang"}},
		"at the state":  {session.EventState, []string{"text hello", "hang"}},
		"at an update":  {session.EventText, []string{"text hello", "hang"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, Config{Command: actorCommand(t), Grace: 100 * time.Millisecond, Permissions: Deny})
			turn := turnWith(t, c.lines...)
			w := warmed(t, a, turn)
			over := make(chan string, 1)
			go func() {
				defer func() {
					if p := recover(); p != nil { // as the worker's turns do
						over <- fmt.Sprint(p)
					}
				}()
				_, err := w.Run(t.Context(), emitting(turn, func(e agent.Event) {
					if e.Type == c.at {
						panic("at " + string(e.Type))
					}
				}))
				over <- fmt.Sprint(err)
			}()
			select {
			case said := <-over:
				if !strings.Contains(said, "at "+string(c.at)) {
					t.Error(said)
				}
			case <-time.After(expect.Patience):
				t.Fatal("the turn does not end")
			}
			ended := make(chan error, 1)
			go func() { ended <- w.Close() }()
			select {
			case err := <-ended:
				expect.OK(t, err)
			case <-time.After(expect.Patience):
				t.Fatal("the agent does not end")
			}
		})
	}
}
