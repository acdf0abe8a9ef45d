package agent

import (
	"encoding/json"

	"turnstile/pkg/session"
)

// Event is one thing that an agent did in a turn.
type Event struct {
	Type   session.EventType `json:"type"` // EventText to EventState; a worker leaves others out
	Text   string            `json:"text,omitempty"`
	Name   string            `json:"name,omitempty"`    // the tool's name
	CallID string            `json:"call_id,omitempty"` // ties tool_end to its tool_start
	Input  json.RawMessage   `json:"input,omitempty"`
	Output json.RawMessage   `json:"output,omitempty"`
	Error  string            `json:"error,omitempty"` // of a tool that failed
	Usage  *session.Usage    `json:"usage,omitempty"`
	Data   json.RawMessage   `json:"data,omitempty"`
	Client bool              `json:"-"` // in tool_start: a call of a session.Function
}
