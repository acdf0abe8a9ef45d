package agent

import "strings"

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
