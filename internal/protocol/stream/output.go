package stream

import (
	"cmp"

	"turnstile/pkg/session"
)

// Output counts the items of a turn's output, over all runs that go on from its first one. An item is a
// tool, or text up to the next tool, steered message or run. See docs/events.md.
type Output struct {
	First string // the ID of the run in which it began
	Items int    // so far

	turn    string // the latest run
	text    bool   // the last item is a text that goes on
	partial bool   // the stream has lost the beginning: nobody knows how many items came before
}

// See counts an event of a turn. It returns from which item on the output so far does not count, because the
// turn goes on from there or begins anew; -1: all of it counts.
func (o *Output) See(e session.Event) (drop int) {
	if e.Turn == "" {
		return -1
	}
	drop = -1
	started, again := e.Type == session.EventTurnStarted, e.Type == session.EventTurnRetry || e.Type == session.EventTurnRequeued
	switch {
	case !o.partial && (again && e.Turn == o.turn || started && e.Continues != "" && e.Continues == o.First):
		drop = max(e.Keeps, 0)
		o.Items = min(o.Items, drop)
	case started, again, e.Turn != o.turn:
		o.First, o.Items, drop = cmp.Or(e.Continues, e.Turn), max(e.Keeps, 0), 0
		o.partial = !started && e.Type != session.EventSteered
	}
	o.turn, o.text = e.Turn, o.text && drop < 0
	switch e.Type {
	case session.EventText:
		if !o.text && e.Text != "" {
			o.Items, o.text = o.Items+1, true
		}
	case session.EventToolStart:
		o.Items, o.text = o.Items+1, false
	case session.EventSteered:
		o.text = false
	}
	return drop
}

// Standing returns the events of a turn's output that count.
func Standing(events []session.Event) (standing []session.Event) {
	var o Output
	var items []int // how many there were with the event
	for _, e := range events {
		if drop := o.See(e); drop >= 0 {
			n := 0
			for n < len(items) && items[n] <= drop && drop > 0 {
				n++
			}
			standing, items = standing[:n], items[:n]
		}
		standing, items = append(standing, e), append(items, o.Items)
	}
	return standing
}
