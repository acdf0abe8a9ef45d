package exec

import (
	"errors"
	"fmt"
	"strings"
)

// SplitCommand splits a command line into words as a shell does: at spaces, with single quotes,
// double quotes and backslashes. Nothing is expanded: $, ~ and * stay as they are. Other syntax of
// shells, such as pipes and redirections, is an error unless it is quoted.
func SplitCommand(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false // distinguishes an empty quoted word from no word
	end := func() {
		if inWord {
			words = append(words, word.String())
			word.Reset()
			inWord = false
		}
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t', '\n', '\r':
			end()
		case '\'':
			n := strings.IndexByte(line[i+1:], '\'')
			if n < 0 {
				return nil, errors.New("command: a single quote is not closed")
			}
			word.WriteString(line[i+1 : i+1+n])
			inWord = true
			i += n + 1
		case '"':
			n, err := doubleQuoted(line[i+1:], &word)
			if err != nil {
				return nil, err
			}
			inWord = true
			i += n
		case '\\':
			i++
			if i == len(line) {
				return nil, errors.New("command: it ends in a backslash")
			}
			if line[i] != '\n' { // a continued line
				word.WriteByte(line[i])
				inWord = true
			}
		case '|', '&', ';', '<', '>', '(', ')':
			return nil, fmt.Errorf("command: no shell runs it, so %q must be quoted; or use sh -c '...'", c)
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	end()
	if len(words) == 0 {
		return nil, errors.New("command: it is empty")
	}
	return words, nil
}

// doubleQuoted reads s up to and including the closing quote and returns its length.
func doubleQuoted(s string, word *strings.Builder) (int, error) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0:
			i++
			if s[i] != '\n' {
				word.WriteByte(s[i])
			}
		default:
			word.WriteByte(c)
		}
	}
	return 0, errors.New("command: a double quote is not closed")
}
