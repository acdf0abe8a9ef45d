package slash

import (
	"fmt"
	"strings"

	"turnstile/internal/typo"
)

// agentCommands are commands of agents that look like a misspelt command of ours.
var agentCommands = map[string]bool{
	"/stats": true, // Gemini CLI
}

// surest is the shortest name of a command, with its slash, in which one wrong letter counts as a
// typing error. Shorter ones are too ambiguous: "/now" and "/net" are not "/new".
const surest = 5

// Suggest returns the reply to a text that is probably a misspelt command: its first word is not
// a command, but has one letter too many, too few or wrong, two letters exchanged, or another
// case, and its arguments fit the command. Any other text that begins with a slash is a message,
// because agents have commands of their own.
func Suggest(text string) (reply string, ok bool) {
	text = strings.TrimSpace(text)
	name, args, _ := strings.Cut(text, " ")
	if !strings.HasPrefix(name, "/") || strings.HasPrefix(name, "//") || strings.Contains(text, "\n") || agentCommands[name] {
		return "", false
	}
	if _, known := named(name); known {
		return "", false
	}
	for _, c := range commands() {
		if strings.TrimSpace(args) != "" && c.args == "" || !mistyped(strings.ToLower(name), c.Name) {
			continue
		}
		return fmt.Sprintf("Unknown command %s: did you mean %s? To send it as a message, write /%[1]s.", name, c.Name), true
	}
	return "", false
}

// mistyped reports whether a word is a command with at most one typing error.
func mistyped(word, command string) bool {
	return word == command || typo.Swapped(word, command) || len(command) >= surest && typo.Likely(word, command)
}
