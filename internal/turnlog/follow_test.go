package turnlog

import (
	"maps"
	"strings"

	"turnstile/pkg/session"
)

// follow returns the items that a follower of the events shows in the end, see docs/events.md.
func follow(events []session.Event, reply string) (shown []string) {
	began, text, tools := "", false, map[string]int{}
	keep := func(n int) {
		shown, text = shown[:n], false
		maps.DeleteFunc(tools, func(_ string, at int) bool { return at >= n })
	}
	for _, e := range events {
		switch e.Type {
		case session.EventTurnStarted:
			if e.Continues != "" && e.Continues == began {
				keep(min(e.Keeps, len(shown)))
			} else {
				keep(0)
				began = e.Turn
			}
		case session.EventText:
			if !text {
				shown, text = append(shown, ""), true
			}
			shown[len(shown)-1] += e.Text
		case session.EventToolStart:
			tools[e.CallID], text = len(shown), false
			shown = append(shown, e.CallID)
		case session.EventToolEnd:
			shown[tools[e.CallID]] += string(e.Output)
		case session.EventSteered:
			text = false
		}
	}
	if len(shown) > 0 && strings.HasPrefix(reply, shown[len(shown)-1]) {
		shown = shown[:len(shown)-1]
	}
	return append(shown, reply)
}
