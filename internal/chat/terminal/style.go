package terminal

import (
	"slices"
	"strings"
)

// Style emphasizes text, if it is on.
type Style bool

// StyleFor returns a Style that is on for a terminal with colors, unless the user turned them off
// (NO_COLOR).
func StyleFor(terminal bool, environ []string) Style {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "NO_COLOR="); ok && value != "" {
			return false
		}
	}
	return Style(terminal && !dumb(environ))
}

// dumb reports whether the terminal supports neither colors nor overwriting.
func dumb(environ []string) bool { return slices.Contains(environ, "TERM=dumb") }

func (s Style) code(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Strong is for text that must not be overlooked.
func (s Style) Strong(text string) string { return s.code("1", text) }

// Faint is for text around the messages.
func (s Style) Faint(text string) string { return s.code("2", text) }

// Trouble is for failures that may be normal.
func (s Style) Trouble(text string) string { return s.code("33", text) }

// Alert is for unexpected events and questions.
func (s Style) Alert(text string) string { return s.code("1;33", text) }

// tone returns a line's text in its tone.
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
