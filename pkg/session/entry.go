package session

import (
	"bytes"
	"encoding/json"
	"fmt"
)

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

// DecodeEntry reads a stored entry. One that cannot be read is shown as such, for
// it must never stop a session: as an entry of RoleSystem with the reason.
func DecodeEntry(line string) Entry {
	var e Entry
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		return Entry{Role: RoleSystem, Text: fmt.Sprintf("[an entry of %d bytes that cannot be read: %v]", len(line), err)}
	}
	return e
}

// DecodeEntries is DecodeEntry for each line.
func DecodeEntries(lines []string) []Entry {
	entries := make([]Entry, len(lines))
	for i, line := range lines {
		entries[i] = DecodeEntry(line)
	}
	return entries
}

// Encode is the entry as it is stored.
func (e Entry) Encode() (string, error) { return encode(e) }

// encode is JSON without the escapes that json.Marshal puts in for HTML.
func encode(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return string(bytes.TrimRight(b.Bytes(), "\n")), nil
}

// ToolUse is a tool that an agent used in a turn.
type ToolUse struct {
	Name   string          `json:"name"`
	CallID string          `json:"call_id,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	Output json.RawMessage `json:"output,omitempty"` // absent: it has not finished
	Error  string          `json:"error,omitempty"`
}
