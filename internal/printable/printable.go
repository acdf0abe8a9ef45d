// Package printable makes other people's words fit to be shown to a person: what a
// user, an agent, a producer or a file says must not steer a terminal, break a line that
// is ours, or let text be read in another order than it has.
//
// Text and Line change what they are given. Control characters (C0, DEL and C1, so
// every escape sequence) and bytes that are no UTF-8 become U+FFFD, the replacement
// character: that something was there is seen. Carriage returns and the invisible
// controls of text direction go. JSON changes nothing that a parser of JSON would
// see: it is for what programs read.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The separators that Unicode has for lines and paragraphs.
const (
	lineSeparator      = '\u2028'
	paragraphSeparator = '\u2029'
)

// Text makes a text printable that may have several lines. Line breaks and tabs
// stay. It can be called piece by piece.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\t':
			return r
		case lineSeparator, paragraphSeparator:
			return '\n'
		}
		return clean(r)
	}, text)
}

// Line makes a text printable on one line: a field, a table's cell, an error. What
// breaks lines becomes a blank.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\t', lineSeparator, paragraphSeparator:
			return ' '
		}
		return clean(r)
	}, strings.TrimSpace(text))
}

// clean is what becomes of a character that breaks no line; -1: nothing.
func clean(r rune) rune {
	switch {
	case r == '\r' || unicode.Is(unicode.Bidi_Control, r):
		return -1
	case unicode.IsControl(r):
		return utf8.RuneError
	}
	return r
}

// JSON makes JSON printable, and leaves its meaning as it is: what Text would change
// is escaped. In what is no JSON the escapes show what was there.
func JSON(text string) string {
	if strings.IndexFunc(text, escaped) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if escaped(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// escaped tells what JSON escapes: all that is not printed, but for the blanks of
// JSON.
func escaped(r rune) bool {
	switch r {
	case '\n', '\t', '\r':
		return false
	case utf8.RuneError, lineSeparator, paragraphSeparator:
		return true
	}
	return clean(r) != r
}
