package session

import "encoding/json"

// Role says whose entry it is.
type Role string

// The roles of a transcript's entries.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"   // one use of a tool: call and result
	RoleSystem    Role = "system" // neither's words, as an entry that cannot be read
)

// Entry is one line of a transcript, stored as JSON. Entries of a turn are
// appended in one script with the ack of its messages.
type Entry struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`

	Tool *ToolUse `json:"tool,omitempty"` // of a RoleTool entry

	Message     string            `json:"message,omitempty"` // the message's id, of a RoleUser entry
	Meta        map[string]string `json:"meta,omitempty"`
	Attachments []Attachment      `json:"attachments,omitempty"`

	Usage *Usage `json:"usage,omitempty"` // of the whole turn, in its last entry

	Turn        string `json:"turn"`                  // the turn's id
	At          int64  `json:"at"`                    // ms since 1970, by Redis' clock
	Interrupted bool   `json:"interrupted,omitempty"` // the turn was cut off here
}

// ToolUse is a tool that an agent used in a turn.
type ToolUse struct {
	Name   string          `json:"name"`
	CallID string          `json:"call_id,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"` // absent: it has not finished
	Error  string          `json:"error,omitempty"`
}
