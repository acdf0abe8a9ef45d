// Package hostile has text that tries to control the terminal, and looks for remains of it in
// output for a person.
package hostile

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Mark is the part of Words that may be printed.
const Mark = "mark"

// Words clear a screen, set its title, move back to overwrite, and reverse text, in every known
// way.
const Words = Mark + "\x1b[2J\x1b]0;title\x07\x9b2J\x08\x7f\u009b31m\u0085\u202eabc\u2066\u200f\u061c\u2028 \x00end"

// Text is Words in UTF-8, as a JSON decoder returns them.
var Text = strings.ToValidUTF8(Words, "\uFFFD")

// ownCodes removes the codes that Turnstile's programs write on terminals.
var ownCodes = strings.NewReplacer("\r\x1b[K", "", "\r\n", "\n", "\x1b[0m", "", "\x1b[1m", "", "\x1b[2m", "", "\x1b[33m", "", "\x1b[1;33m", "")

// Check checks output for a person.
func Check(t testing.TB, what, printed string) {
	t.Helper()
	for at, r := range printed {
		_, width := utf8.DecodeRuneInString(printed[at:])
		switch {
		case r == '\n' || r == '\t':
		case r == utf8.RuneError && width == 1, unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == '\u2028', r == '\u2029':
			t.Errorf("%s prints %U: %q", what, r, printed[max(0, at-60):min(len(printed), at+60)])
			return
		}
	}
}

// CheckSeen is Check for output that must have Mark.
func CheckSeen(t testing.TB, what, printed string) {
	t.Helper()
	Check(t, what, printed)
	if !strings.Contains(printed, Mark) {
		t.Errorf("%s does not print the words: %q", what, printed)
	}
}

// CheckTerminal is CheckSeen for a terminal, on which Turnstile's programs write some codes.
func CheckTerminal(t testing.TB, what, printed string) {
	t.Helper()
	CheckSeen(t, what, ownCodes.Replace(printed))
}

// CheckJSON is CheckSeen for lines of JSON, which must have Text unchanged.
func CheckJSON(t testing.TB, what, printed string) {
	t.Helper()
	CheckSeen(t, what, printed)
	whole := false
	for line := range strings.Lines(printed) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Errorf("%s: %v: %q", what, err, line)
			return
		}
		var b bytes.Buffer
		walk(v, &b)
		whole = whole || strings.Contains(b.String(), Text)
	}
	if !whole {
		t.Errorf("%s does not have the words as they are: %q", what, printed)
	}
}

// walk collects the texts of a JSON value.
func walk(v any, b *bytes.Buffer) {
	switch v := v.(type) {
	case string:
		b.WriteString(v + "\n")
	case []any:
		for _, e := range v {
			walk(e, b)
		}
	case map[string]any:
		for name, e := range v {
			b.WriteString(name + "\n")
			walk(e, b)
		}
	}
}
