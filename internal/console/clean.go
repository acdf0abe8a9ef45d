package console

import (
	"strings"
	"unicode"
)

// Plain takes out of other people's words what could steer a terminal: all control
// characters but line breaks and tabs.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// oneLine takes out of other people's words what would break the line, steer the
// terminal, or let the rest of the line be read in another order.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return '\uFFFD'
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.TrimSpace(text))
}

// cut shortens a text to limit characters.
func cut(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return strings.TrimRight(string(runes[:limit-1]), " ") + "…"
	}
	return text
}
