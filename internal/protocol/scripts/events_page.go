// Code generated from ../lua/events_page.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed events_page.lua
var eventsPageLua string

// EventsPage is the script of events_page.lua.
var EventsPage = newMove[EventsPageArgs]("events_page", eventsPageLua, readEventsPage)

// EventsPageArgs are the arguments of EventsPage.
type EventsPageArgs struct {
	After string // id of the event before the first
	Room  int64  // how many bytes a page has. Its last event may exceed that: a page has at least one, however long. 0: no event, only whether there is one
}

// Words are the arguments as ARGV has them.
func (a EventsPageArgs) Words() []any {
	return []any{a.After, a.Room}
}

// EventsPageResult is the result of EventsPage.
type EventsPageResult struct {
	More    bool
	Entries script.Result
}

func readEventsPage(l script.Result) (r EventsPageResult) {
	r.More, r.Entries = l.Bool(0), rest(l, 1)
	return r
}
