// Package titles checks the titles of sessions.
package titles

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"turnstile/pkg/session"
)

// Max is the longest title, in characters.
const Max = 200

// Clean makes a title of an agent's proposal: one line, trimmed, truncated to Max characters. The
// result may be empty.
func Clean(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	n := 0
	for i := range text {
		if n == Max {
			return strings.TrimRight(text[:i], " ")
		}
		n++
	}
	return text
}

// Validate checks a user's title: one line of at most Max characters; empty means none. The error
// wraps session.ErrInvalid.
func Validate(title string) error {
	switch n := utf8.RuneCountInString(title); {
	case n > Max:
		return fmt.Errorf("%w title: it has %d characters, at most %d are allowed", session.ErrInvalid, n, Max)
	case !utf8.ValidString(title) || strings.ContainsAny(title, "\r\n"):
		return fmt.Errorf("%w title: write it as one line of UTF-8", session.ErrInvalid)
	}
	return nil
}
