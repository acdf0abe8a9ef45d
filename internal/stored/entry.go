// Package stored encodes and decodes the JSON that Redis has of a session: the entries of its
// transcripts, the partial of its running turn, and its agent state.
//
// It reads leniently: what cannot be read is shown as such, or counts as absent, and never stops
// a session. Only scripts write the encoded values, because writes must be fenced.
package stored

import (
	"bytes"
	"encoding/json"
	"fmt"

	"turnstile/internal/boundedjson"
	"turnstile/pkg/session"
)

// DecodeEntry reads an entry of a transcript. In place of an unreadable one it returns an entry
// of session.RoleSystem that says why.
func DecodeEntry(line string) session.Entry {
	var e session.Entry
	if err := boundedjson.Unmarshal([]byte(line), &e); err != nil {
		return session.Entry{Role: session.RoleSystem, Text: fmt.Sprintf("[an entry of %d bytes that cannot be read: %v]", len(line), err)}
	}
	return e
}

// DecodeEntries calls DecodeEntry for each line.
func DecodeEntries(lines []string) []session.Entry {
	entries := make([]session.Entry, len(lines))
	for i, line := range lines {
		entries[i] = DecodeEntry(line)
	}
	return entries
}

// EncodeEntry returns the entry as it is stored.
func EncodeEntry(e session.Entry) (string, error) { return Encode(e) }

// Encode returns JSON without the HTML escapes of json.Marshal.
func Encode(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return string(bytes.TrimRight(b.Bytes(), "\n")), nil
}
