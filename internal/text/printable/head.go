package printable

import (
	"strings"
	"unicode/utf8"
)

// HeadMost is how many bytes of a text views and lists have.
const HeadMost = 4 << 10

// Head returns at most so many bytes of a text, whole characters, and does not keep the rest.
func Head(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return strings.Clone(text[:most])
}
