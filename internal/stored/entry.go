// Package stored is the JSON in which Redis has a session's entries, the checkpoint of its
// running turn and its agent's state.
//
// It reads leniently: what cannot be read is shown as such, or counts as absent, and never
// stops a session. Scripts write what it encodes, for writes must be fenced.
package stored

import (
	"bytes"
	"encoding/json"
	"fmt"

	"turnstile/pkg/session"
)

// DecodeEntry reads an entry of a transcript. One that cannot be read is an entry of
// session.RoleSystem with the reason.
func DecodeEntry(line string) session.Entry {
	var e session.Entry
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		return session.Entry{Role: session.RoleSystem, Text: fmt.Sprintf("[an entry of %d bytes that cannot be read: %v]", len(line), err)}
	}
	return e
}

// DecodeEntries is DecodeEntry for each line.
func DecodeEntries(lines []string) []session.Entry {
	entries := make([]session.Entry, len(lines))
	for i, line := range lines {
		entries[i] = DecodeEntry(line)
	}
	return entries
}

// EncodeEntry is the entry as it is stored.
func EncodeEntry(e session.Entry) (string, error) { return Encode(e) }

// Encode is JSON without the escapes that json.Marshal puts in for HTML.
func Encode(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return string(bytes.TrimRight(b.Bytes(), "\n")), nil
}
