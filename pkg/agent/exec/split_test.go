package exec

import (
	"reflect"
	"testing"
)

func TestSplitCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`claude -p`:                         {"claude", "-p"},
		"  a \t b\n":                        {"a", "b"},
		`sh -c 'echo "$X" | tee out; true'`: {"sh", "-c", `echo "$X" | tee out; true`},
		`a "b c"d'e f' ""  ''`:              {"a", "b cde f", "", ""},
		`a\ b \"c \\`:                       {"a b", `"c`, `\`},
		`"a\"b\\c\$d\n" '\'`:                {`a"b\c$d\n`, `\`},
		"a\\\nb \"c\\\nd\" \\\n e":          {"ab", "cd", "e"},
		`$HOME ~ * #x ä`:                    {"$HOME", "~", "*", "#x", "ä"},
		`x '|' "<>" \; \&`:                  {"x", "|", "<>", ";", "&"},
	} {
		if got, err := SplitCommand(line); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"", "  ", `a 'b`, `a "b`, `a "b\"`, `a \`, "a | b", "a; b", "a > b", "a && b", "(a)", "a <b"} {
		if got, err := SplitCommand(line); err == nil {
			t.Errorf("%q: no error, but %q", line, got)
		}
	}
}
