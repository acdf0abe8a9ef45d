package turnlog

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"turnstile/internal/protocol"
	"turnstile/pkg/agent"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A tool's end belongs to the last running tool with its ID.
func TestToolsWithOneID(t *testing.T) {
	t.Parallel()
	s := newEntries(&protocol.ClaimedTurn{ID: "t"})
	start := func(name string) { s.add(agent.Event{Type: session.EventToolStart, Name: name, CallID: "0"}, 1) }
	end := func(out string) {
		s.add(agent.Event{Type: session.EventToolEnd, CallID: "0", Output: json.RawMessage(out)}, 1)
	}
	start("a")
	start("b")
	end("1")
	start("c")
	end("2")
	end("3")
	end("4")
	var got []string
	for _, e := range s.made {
		got = append(got, e.Tool.Name+string(e.Tool.Output))
	}
	expect.List(t, "tools", got, "a3", "b1", "c2")
}

// Ends of tools that never began cost the same, however many tools have not ended.
func TestUnknownToolsAreCheap(t *testing.T) {
	t.Parallel()
	const n = 200_000
	s := newEntries(&protocol.ClaimedTurn{ID: "t"})
	for i := range n {
		s.add(agent.Event{Type: session.EventToolStart, CallID: fmt.Sprint("open", i)}, 1)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			s.add(agent.Event{Type: session.EventToolEnd, CallID: fmt.Sprint(i)}, 1)
		}
	}()
	select {
	case <-done:
	case <-time.After(expect.Patience):
		t.Fatal("it searches all open tools")
	}
}
