// Package printable makes foreign text safe to show on a terminal. Text of a user, an agent, a
// producer or a file must not control the terminal, break one of our lines, or change the order of
// other text.
//
// Text and Line change their input. Control characters (C0, DEL and C1, so every escape sequence)
// and bytes that are not UTF-8 become U+FFFD, the replacement character, so that a reader sees
// that something was there. Carriage returns and the invisible controls of text direction are
// removed. JSON keeps the meaning for a JSON parser: it is for output that programs read.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unicode's separators of lines and paragraphs.
const (
	lineSeparator      = '\u2028'
	paragraphSeparator = '\u2029'
)

// Text makes text of several lines printable. Line breaks and tabs stay. Text may be passed in
// pieces.
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

// Line makes text printable on one line: a field, a cell of a table, an error. Line breaks and
// tabs become blanks.
func Line(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\t', lineSeparator, paragraphSeparator:
			return ' '
		}
		return clean(r)
	}, strings.TrimSpace(text))
}

// clean returns the replacement of a character other than a line break, or -1 to remove it.
func clean(r rune) rune {
	switch {
	case r == '\r' || unicode.Is(unicode.Bidi_Control, r):
		return -1
	case unicode.IsControl(r):
		return utf8.RuneError
	}
	return r
}

// JSON makes JSON printable and keeps its meaning: it escapes characters that Text would change. In text that
// is not JSON the escapes show the original characters.
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

// escaped reports whether JSON escapes a character: every unprintable one except JSON's own
// blanks.
func escaped(r rune) bool {
	switch r {
	case '\n', '\t', '\r':
		return false
	case utf8.RuneError, lineSeparator, paragraphSeparator:
		return true
	}
	return clean(r) != r
}
