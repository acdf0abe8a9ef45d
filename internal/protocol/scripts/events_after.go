// Code generated from ../lua/events_after.lua by go generate; DO NOT EDIT.

package scripts

import (
	_ "embed"

	"turnstile/internal/redis/script"
)

//go:embed events_after.lua
var eventsAfterLua string

// EventsAfter is the script of events_after.lua.
var EventsAfter = newMove[EventsAfterArgs]("events_after", eventsAfterLua, readEventsAfter)

// EventsAfterKeys are the KEYS of EventsAfter.
func EventsAfterKeys(k Keys) []string {
	return []string{k.Run(), k.Record(), k.Events()}
}

// EventsAfterArgs are the arguments of EventsAfter.
type EventsAfterArgs struct {
	After string // id of the entry that was read last; '': none, read from the beginning
	Seen  int64  // how many events of that entry were read
	Room  int64  // how many bytes a page has. Its last entry may exceed that: a page has at least one, however long
}

// Words are the arguments as ARGV has them.
func (a EventsAfterArgs) Words() []any {
	return []any{a.After, a.Seen, a.Room}
}

// EventsAfterResult is the result of EventsAfter.
type EventsAfterResult struct {
	Status  Status
	More    bool
	Entries script.Result
}

func readEventsAfter(l script.Result) (r EventsAfterResult) {
	switch r.Status = Status(l.Text(0)); r.Status {
	case Page:
		r.More, r.Entries = l.Bool(1), rest(l, 2)
	}
	return r
}
