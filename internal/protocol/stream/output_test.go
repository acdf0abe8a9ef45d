package stream_test

import (
	"strings"
	"testing"

	"turnstile/internal/protocol/stream"
	"turnstile/pkg/session"
	"turnstile/test/expect"
)

// A turn's output over runs that go on from each other, and over one that begins anew.
func TestStanding(t *testing.T) {
	t.Parallel()
	start := func(turn, continues string, keeps int) session.Event {
		return session.Event{Type: session.EventTurnStarted, Turn: turn, Continues: continues, Keeps: keeps}
	}
	text := func(turn, text string) session.Event {
		return session.Event{Type: session.EventText, Turn: turn, Text: text}
	}
	tool := func(turn, call string) session.Event {
		return session.Event{Type: session.EventToolStart, Turn: turn, CallID: call}
	}
	end := func(turn, call string) session.Event {
		return session.Event{Type: session.EventToolEnd, Turn: turn, CallID: call}
	}
	again := func(turn string, keeps int) session.Event {
		return session.Event{Type: session.EventTurnRequeued, Turn: turn, Keeps: keeps}
	}
	steered := func(turn string) session.Event { return session.Event{Type: session.EventSteered, Turn: turn} }
	cases := map[string]struct {
		events []session.Event
		want   string // texts and tools that count
		items  int
		first  string
	}{
		"one run": {
			[]session.Event{start("a", "", 0), text("a", "1"), text("a", "2"), tool("a", "c"), end("a", "c"), text("a", "3")}, "1 2 c /c 3", 3, "a",
		},
		"goes on behind a tool": {
			[]session.Event{start("a", "", 0), text("a", "1"), tool("a", "c"), end("a", "c"), text("a", "half"), start("b", "a", 2), text("b", "3")}, "1 c /c 3", 3, "a",
		},
		"goes on with its tool": {
			[]session.Event{start("a", "", 0), tool("a", "c"), start("b", "a", 1), end("b", "c")}, "c /c", 1, "a",
		},
		"a dropped tool starts again": {
			[]session.Event{start("a", "", 0), text("a", "1"), tool("a", "c"), start("b", "a", 1), tool("b", "c"), end("b", "c")}, "1 c /c", 2, "a",
		},
		"three runs": {
			[]session.Event{start("a", "", 0), text("a", "1"), start("b", "a", 1), tool("b", "c"), start("c", "a", 2), end("c", "c"), text("c", "2")}, "1 c /c 2", 3, "a",
		},
		"text of another run is another item": {
			[]session.Event{start("a", "", 0), text("a", "1"), start("b", "a", 1), text("b", "2"), start("c", "a", 1)}, "1", 1, "a",
		},
		"begins anew": {
			[]session.Event{start("a", "", 0), text("a", "1"), tool("a", "c"), start("b", "", 0), text("b", "2")}, "2", 1, "b",
		},
		"a drain, and goes on": {
			[]session.Event{start("a", "", 0), text("a", "1"), tool("a", "c"), text("a", "half"), again("a", 2), start("b", "a", 2), end("b", "c")}, "1 c /c", 2, "a",
		},
		"a drain of a turn without steps": {
			[]session.Event{start("a", "", 0), text("a", "1"), again("a", 0)}, "", 0, "a",
		},
		"a steered message parts texts": {
			[]session.Event{start("a", "", 0), text("a", "1"), steered("a"), text("a", "2"), start("b", "a", 1)}, "1", 1, "a",
		},
		"a number that cannot be": {
			[]session.Event{start("a", "", 0), text("a", "1"), start("b", "a", -1), text("b", "2")}, "2", 1, "a",
		},
		"a reader of a steered message": {
			[]session.Event{{Type: session.EventSteered, Turn: "b", Continues: "a", Keeps: 3}, text("b", "4"), tool("b", "c"), start("c", "a", 4), text("c", "5")}, "4 5", 5, "a",
		},
		"a stream without its beginning": {
			[]session.Event{text("a", "2"), tool("a", "c"), start("b", "a", 2), text("b", "3")}, "3", 3, "a",
		},
		"another's runs": {
			[]session.Event{start("b", "a", 2), text("b", "3")}, "3", 3, "a",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o stream.Output
			for _, e := range c.events {
				o.See(e)
			}
			got := ""
			for _, e := range stream.Standing(c.events) {
				switch e.Type {
				case session.EventText:
					got += " " + e.Text
				case session.EventToolStart:
					got += " " + e.CallID
				case session.EventToolEnd:
					got += " /" + e.CallID
				}
			}
			expect.Equal(t, "what counts", strings.TrimSpace(got), c.want)
			expect.Equal(t, "items", o.Items, c.items)
			expect.Equal(t, "first run", o.First, c.first)
		})
	}
}
