package slash

import (
	"regexp"
	"strings"
	"unicode"
)

// mention is the bot's name before a command, as chats write it: @bot, and <@U1> in Slack or Discord.
var mention = regexp.MustCompile(`^(?:<@[!&]?[^>\s]+>|[@＠][^\s/／]+)[\pZ\p{Cf}\s:,]*`)

// split returns the first word of a text of one line, which begins with a slash, and the rest. "": it is no command.
// Chats and keyboards put a mention before a command or at its end (/stop@bot), marks that nobody sees around it,
// no-break spaces into it, and write its slash wide. Such a command must not wait behind the turn that it is to stop.
func split(text string) (name, args string) {
	text = trimmed(text)
	text = text[len(mention.FindString(text)):]
	rest, slash := strings.CutPrefix(text, "/")
	if !slash {
		rest, slash = strings.CutPrefix(text, "／")
	}
	if !slash || strings.Contains(rest, "\n") {
		return "", ""
	}
	if i := strings.IndexFunc(rest, unicode.IsSpace); i >= 0 {
		rest, args = rest[:i], trimmed(rest[i:])
	}
	name, _, _ = strings.Cut(rest, "@")
	return "/" + strings.Map(func(r rune) rune {
		if unseen(r) {
			return -1
		}
		return r
	}, name), args
}

// trimmed is a text without spaces and unseen marks around it.
func trimmed(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unseen(r) })
}

// unseen reports whether a character only formats others: a zero-width space, a mark of direction, a byte order mark.
func unseen(r rune) bool { return unicode.Is(unicode.Cf, r) }
