package agent

import "encoding/json"

// EventType names what an agent did.
type EventType string

// The events of an agent. docs/events.md specifies their JSON form, which is
// also what a jsonl agent writes to stdout.
const (
	EventText      EventType = "text"       // a piece of the reply: Text
	EventThought   EventType = "thought"    // a piece of its thinking: Text; shown, not kept
	EventToolStart EventType = "tool_start" // Name, CallID, Input
	EventToolEnd   EventType = "tool_end"   // CallID, Output or Error

	// EventTitle proposes a title for the session: Text, see CleanTitle. It never
	// overwrites one that a user set.
	EventTitle EventType = "title"
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
}
