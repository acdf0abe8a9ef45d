package session

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxTitle is how long a session's title may be, in characters.
const MaxTitle = 200

// CleanTitle makes a title of what an agent proposes: one line, without blanks
// around it, cut after MaxTitle characters. Empty: there is nothing in it.
func CleanTitle(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	n := 0
	for i := range text {
		if n == MaxTitle {
			return strings.TrimRight(text[:i], " ")
		}
		n++
	}
	return text
}

// ValidateTitle checks a title that a user gives: one line of at most MaxTitle
// characters, or empty for none. The error wraps ErrInvalid.
func ValidateTitle(title string) error {
	switch n := utf8.RuneCountInString(title); {
	case n > MaxTitle:
		return fmt.Errorf("%w title: it has %d characters, at most %d are allowed", ErrInvalid, n, MaxTitle)
	case !utf8.ValidString(title) || strings.ContainsAny(title, "\r\n"):
		return fmt.Errorf("%w title: write it as one line of UTF-8", ErrInvalid)
	}
	return nil
}
