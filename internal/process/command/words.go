package command

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Users says which words of a prompt an agent's program carries out.
type Users struct {
	// Commands are the names of those commands of the program that a prompt may be, without the slash.
	Commands []string

	// Mentions: the program looks for an @path anywhere, not only where a word begins.
	Mentions bool
}

// Prompt makes a prompt plain words to the program below. Claude Code, OpenCode and others carry out a prompt that
// begins with a slash: the user's settings change, or the text never reaches the model. So a line of words comes
// first, unless it is one of the Commands.
func (u Users) Prompt(text string) string {
	text = u.Quote(text)
	begin := strings.TrimLeftFunc(text, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) })
	rest, slash := strings.CutPrefix(begin, "/")
	switch name := strings.FieldsFunc(rest+" ", unicode.IsSpace); {
	case !slash:
		return text
	case len(name) > 0 && strings.HasPrefix(rest, name[0]) && slices.Contains(u.Commands, name[0]):
		return begin
	}
	return "[The user wrote:]\n" + text
}

// Quote puts a backslash before each at sign that a program takes for a file, an agent or a resource to read:
// Claude Code and Gemini CLI then give it to the model as it is. Claude Code looks for them after spaces and some
// punctuation. The bracket is that of agent.Speakers, and the other characters those of addresses.
func (u Users) Quote(text string) string {
	if !strings.Contains(text, "@") { // the pattern is slow
		return text
	}
	if u.Mentions {
		return strings.ReplaceAll(text, "@", `\@`)
	}
	return wordBegins.ReplaceAllString(text, `$1\@`)
}

var wordBegins = regexp.MustCompile(`(^|[^\pL\pN\\\[@._%+~=/-])@`)
