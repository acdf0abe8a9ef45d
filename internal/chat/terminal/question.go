package terminal

import (
	"regexp"
	"strings"

	"turnstile/internal/text/printable"
	"turnstile/pkg/session"
)

// questionLen is the longest question that is shown, in characters. It is long, because a user must
// see all of it before allowing it.
const questionLen = 2000

// question shows the agent's question, and the commands for the decision.
func (s *Story) question(e session.Event) []Line {
	text := "permission asked (" + printable.Line(e.CallID) + "): " + printable.Line(e.Name)
	if more := printable.Line(e.Text); more != "" && more != printable.Line(e.Name) {
		text += ": " + more
	}
	if input := brief(e.Input, questionLen); input != "" && !strings.Contains(text, input) {
		text += " [" + input + "]"
	}
	lines := []Line{{cut(text, questionLen), Alert}}
	if s.Allow != "" {
		id := Quoted(e.CallID)
		how := "decide with: " + s.Allow + " " + id + "   or: " + s.Deny + " " + id
		if e.Timeout > 0 {
			how += "   within " + e.Timeout.String()
		}
		lines = append(lines, Line{how, Alert})
	}
	return lines
}

func decision(d session.Decision) string {
	switch {
	case d == session.Cancelled:
		return "not asked any more"
	case d.Allowed():
		return "allowed"
	case d == session.Deny:
		return "denied"
	}
	return printable.Line(string(d))
}

// bare matches a word that a shell needs no quotes for. A ~ needs them, as in a=~.
var bare = regexp.MustCompile(`^[A-Za-z0-9._:@+=/-]+$`)

// Quoted returns a word as it must be written in a shell.
func Quoted(word string) string {
	word = printable.Line(word)
	if bare.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
