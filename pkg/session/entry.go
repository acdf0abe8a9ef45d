package session

import (
	"encoding/json"
	"fmt"
)

// Role is the author of an entry.
type Role string

// The roles of a transcript's entries.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"   // one use of a tool: its call and its result
	RoleSystem    Role = "system" // replaces an entry that cannot be read; Text has the reason
)

// Entry is one line of a transcript, stored as JSON. One script appends a turn's entries and
// acknowledges its messages.
type Entry struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`

	Tool *ToolUse `json:"tool,omitempty"` // in a RoleTool entry
	Sent *Sent    `json:"sent,omitempty"` // of an agent that asks a model by itself

	Message     string            `json:"message,omitempty"` // the message's ID, in a RoleUser entry
	Meta        map[string]string `json:"meta,omitempty"`
	Attachments []Attachment      `json:"attachments,omitempty"`
	Brought     *Brought          `json:"brought,omitempty"` // by a program, with its message

	Usage *Usage `json:"usage,omitempty"` // the whole turn's, in its last entry

	Turn        string `json:"turn"`                  // the turn's ID
	At          Time   `json:"at"`                    // by Redis' clock
	Interrupted bool   `json:"interrupted,omitempty"` // the turn was interrupted here
	Ended       *Ended `json:"ended,omitempty"`       // in the last entry of a turn that failed or was stopped
}

// Ended says how a turn ended that failed or was stopped.
type Ended struct {
	Status Status `json:"status"`
	Why    string `json:"why"` // the sentence for users that is the outcome's Error
}

// String returns a clause for people, such as "failed: the model refused".
func (e Ended) String() string {
	if e.Status == StatusStopped {
		return "stopped"
	}
	return fmt.Sprintf("%s: %s", e.Status, e.Why)
}

// Sent is what a model's server has sent with a reply beside its text and calls, such as thoughts and signatures, and
// wants back in later turns. It is for no reader.
type Sent struct {
	From string `json:"from"` // the server and the model: no others get it

	// Fields are the message's: in the entry of its first call, or of its text if it has none. Call are a call's.
	Fields map[string]json.RawMessage `json:"fields,omitempty"`
	Call   map[string]json.RawMessage `json:"call,omitempty"`
}

// ToolUse is one use of a tool by an agent.
type ToolUse struct {
	Name   string          `json:"name"`
	CallID string          `json:"call_id,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"` // absent if the tool did not finish
	Error  string          `json:"error,omitempty"`

	// Client: it is a call of a Function. Its result is in the entry of a later message, see Brought.
	Client bool `json:"client,omitempty"`

	// Parallel: the model made this call in one reply with the tool before it.
	Parallel bool `json:"parallel,omitempty"`

	// Run is the ID of the earlier run of the turn that made this use: it was kept when that run was
	// interrupted. "": the turn itself.
	Run string `json:"run,omitempty"`

	// Took is how long a step took. 0: less than a ms, it has not ended, or it is no step.
	Took Millis `json:"took_ms,omitempty"`

	// The decision on the agent's question about this use, and who decided. "" if it asked none.
	Decision Decision `json:"decision,omitempty"`
	By       string   `json:"by,omitempty"`
}
