package agent

import (
	"encoding/json"

	"turnstile/pkg/session"
)

// EventType names what an agent did.
type EventType string

// The events of an agent. docs/events.md specifies their JSON form, which a jsonl agent writes to
// stdout.
const (
	EventText      EventType = "text"       // a piece of the reply: Text
	EventThought   EventType = "thought"    // a piece of its thinking: Text; shown, not kept
	EventToolStart EventType = "tool_start" // Name, CallID, Input
	EventToolEnd   EventType = "tool_end"   // CallID, Output or Error

	// EventTitle proposes a title for the session: Text, one line. It does not replace a title that
	// a user set.
	EventTitle EventType = "title"

	// EventUsage reports the usage since the previous EventUsage: Usage. The sum of a turn's is
	// stored with its last entry.
	EventUsage EventType = "usage"

	// EventNotice informs the user of something that is not part of the reply: Text; shown, not
	// kept.
	EventNotice EventType = "notice"

	// EventRaw is an event of the agent's own protocol for which there is no other event: Name is
	// its type there, Data all of it. Programs see it; it is not kept.
	EventRaw EventType = "raw"

	// EventState stores Data for the session's next turns, see Turn.State. It replaces what was
	// stored before and is not shown.
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
