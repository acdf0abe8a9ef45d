package agent

import (
	"encoding/json"

	"turnstile/pkg/session"
)

// EventType names what an agent did.
type EventType string

// The events of an agent. docs/events.md specifies their JSON form, which is
// also what a jsonl agent writes to stdout.
const (
	EventText      EventType = "text"       // a piece of the reply: Text
	EventThought   EventType = "thought"    // a piece of its thinking: Text; shown, not kept
	EventToolStart EventType = "tool_start" // Name, CallID, Input
	EventToolEnd   EventType = "tool_end"   // CallID, Output or Error

	// EventTitle proposes a title for the session: Text, one line. It never
	// overwrites one that a user set.
	EventTitle EventType = "title"

	// EventUsage tells what was used since the last one: Usage. A turn's are added
	// up, and kept with its last entry.
	EventUsage EventType = "usage"

	// EventNotice is something that the user should know and that is no part of the
	// reply: Text; shown, not kept.
	EventNotice EventType = "notice"

	// EventRaw is what an agent said in its own protocol and no other event is for:
	// Name is its type there, Data the whole. Shown to programs, not kept.
	EventRaw EventType = "raw"

	// EventState asks to keep Data for the session's next turns, see Turn.State. It
	// replaces what was kept, and is not shown.
	EventState EventType = "state"
)

// Event is one thing that an agent did in a turn.
type Event struct {
	Type   EventType       `json:"type"`
	Text   string          `json:"text,omitempty"`
	Name   string          `json:"name,omitempty"`    // the tool's name
	CallID string          `json:"call_id,omitempty"` // ties tool_end to its tool_start
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"` // of a tool that failed
	Usage  *session.Usage  `json:"usage,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}
