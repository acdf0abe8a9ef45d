// Package pattern compares texts with patterns that users, tenants and operators write.
package pattern

import "strings"

// Fits reports whether a text fits a pattern, in which * stands for any characters. It takes time for the
// pattern's length times the text's at most: each * is extended only until the next part of the pattern
// fits, which decides nothing wrongly, because a later * can take what an earlier one has left.
func Fits(pattern, text string) bool {
	first, rest, more := strings.Cut(pattern, "*")
	if !more {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	for ok && more {
		first, rest, more = strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(text, first)
		}
		_, text, ok = strings.Cut(text, first)
	}
	return ok
}
