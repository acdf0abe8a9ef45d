package protocol

import (
	"fmt"

	"turnstile/internal/text/boundedjson"
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
