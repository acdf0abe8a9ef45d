package slash

import (
	"fmt"
	"strings"
)

// agentCommands are commands of agents that look like a misspelt command of ours.
var agentCommands = map[string]bool{
	"/stats": true, // Gemini CLI
}

// surest is the shortest name of a command, with its slash, in which one wrong letter counts as a
// typing error. Shorter ones are too ambiguous: "/now" and "/net" are not "/new".
const surest = 5

// shortest is the shortest beginning of a command, with its slash, that counts as the command.
const shortest = 4

// Suggest returns the reply to a text that is probably a misspelt command: its first word is not a
// command, but has one letter too many, too few or wrong, two letters exchanged, or another case,
// or it is the beginning of only one command. Its arguments must fit the command: "/rest api?" is
// not /reset, which takes none. Any other text that begins with a slash is a message, because
// agents have commands too.
func Suggest(text string) (reply string, ok bool) {
	name, args := split(text)
	if name == "" || strings.HasPrefix(name, "//") || agentCommands[name] {
		return "", false
	}
	if _, known := named(name); known {
		return "", false
	}
	c, ok := meant(strings.ToLower(name))
	if !ok || args != "" && c.args == "" {
		return "", false
	}
	return fmt.Sprintf("Unknown command %s: did you mean %s? To send it as a message, write /%[1]s.", name, c.Name), true
}

// meant is the command that a word is a misspelling or the beginning of.
func meant(word string) (Command, bool) {
	var begun []Command
	for _, c := range commands() {
		if isCommand(word, c.Name) {
			return c, true
		}
		if len(word) >= shortest && strings.HasPrefix(c.Name, word) {
			begun = append(begun, c)
		}
	}
	if len(begun) != 1 {
		return Command{}, false
	}
	return begun[0], true
}

// isCommand reports whether a word is a command with at most one typing error.
func isCommand(word, command string) bool {
	return word == command || swapped(word, command) || len(command) >= surest && Mistyped(word, command)
}
