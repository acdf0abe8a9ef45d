// Package frame quotes lines of foreign texts that look like the lines with which Turnstile frames a history, a note
// and several roles in one text for a model. A user, a tool or a file must not speak as another one.
package frame

import (
	"regexp"
	"strings"
)

// before is what may stand before a line's first word without being seen as one: blanks, marks, invisible characters.
const before = `(^|[\p{Cc}\x{2028}\x{2029}])([^\pL\pN\p{Cc}\x{2028}\x{2029}\[［]*)`

var (
	bracket = regexp.MustCompile(before + `(?i)([\[［][^\pL\pN\p{Cc}]*(?:system\s+note|(?:the\s+end\s+of\s+)?what\s+was\s+said|end\s+of\s+what\s+was\s+said|no\s+new\s+message\s+follows))`)
	label   = regexp.MustCompile(before + `(?i)((?:user|assistant|system|developer)[^\pL\pN\p{Cc}]*[:：]|assistant\s+used\s+the\s+tool|task\s*[:：]?\s*(?:$|\p{Cc}))`)
)

// Notes quotes with "> " the lines of a text that look like a system note, or like the beginning or the end of a
// history.
func Notes(text string) string {
	if !strings.ContainsAny(text, "[［") { // the pattern is slow
		return text
	}
	return bracket.ReplaceAllString(text, "$1> $2$3")
}

// All is Notes that also quotes lines which look like another role's: User:, Assistant:, System: or ### Task. It is
// for texts that stand among others with such labels.
func All(text string) string { return label.ReplaceAllString(Notes(text), "$1> $2$3") }
