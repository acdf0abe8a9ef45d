package console

import "strings"

// Style puts emphasis on text, where it is on.
type Style bool

// StyleFor is on for a terminal that knows colours and a user who did not turn
// them off (NO_COLOR).
func StyleFor(terminal bool, environ []string) Style {
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb" {
			return false
		}
	}
	return Style(terminal)
}

func (s Style) code(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Strong is for what must not be overlooked.
func (s Style) Strong(text string) string { return s.code("1", text) }

// Faint is for what is said beside the conversation.
func (s Style) Faint(text string) string { return s.code("2", text) }

// Alert is for what went wrong, or is otherwise than expected.
func (s Style) Alert(text string) string { return s.code("1;33", text) }
