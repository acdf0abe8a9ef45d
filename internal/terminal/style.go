package terminal

import (
	"slices"
	"strings"
)

// Style puts emphasis on text, where it is on.
type Style bool

// StyleFor is on for a terminal that knows colours and a user who did not turn
// them off (NO_COLOR).
func StyleFor(terminal bool, environ []string) Style {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "NO_COLOR="); ok && value != "" {
			return false
		}
	}
	return Style(terminal && !dumb(environ))
}

// dumb tells of a terminal that can only be written on.
func dumb(environ []string) bool { return slices.Contains(environ, "TERM=dumb") }

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

// Trouble is for what failed, which may well be in order.
func (s Style) Trouble(text string) string { return s.code("33", text) }

// Alert is for what went wrong, or is otherwise than expected.
func (s Style) Alert(text string) string { return s.code("1;33", text) }

// tone is a line's text in its tone.
func (s Style) tone(l Line) string {
	switch l.Tone {
	case Alert:
		return s.Alert(l.Text)
	case Trouble:
		return s.Trouble(l.Text)
	case Aside:
	}
	return s.Faint(l.Text)
}
