package resume_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"turnstile/test/expect"
)

var (
	ofTheRecord = regexp.MustCompile(`'H[A-Z]+', (?:s\.)?resume,`)
	quoted      = regexp.MustCompile(`'([a-z_]+)'`)
	documented  = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
)

// docs/internals/keys.md lists the record's fields. No script writes or reads any other.
func TestFieldsAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/internals/keys.md")
	expect.OK(t, err)
	_, table, _ := strings.Cut(string(doc), "\n## resume\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var want []string
	for _, m := range documented.FindAllStringSubmatch(table, -1) {
		want = append(want, m[1])
	}
	var used []string
	for _, dir := range []string{".", "../../internal/protocol"} {
		expect.OK(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".lua" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, at := range ofTheRecord.FindAllIndex(text, -1) {
				for _, m := range quoted.FindAllSubmatch(arguments(text[at[1]:]), -1) {
					used = append(used, string(m[1]))
				}
			}
			return nil
		}))
	}
	slices.Sort(want)
	slices.Sort(used)
	used = slices.Compact(used)
	if !slices.Equal(used, want) {
		t.Errorf("scripts use %q, docs/internals/keys.md lists %q", used, want)
	}
}

// arguments are the rest of a call, to its closing parenthesis.
func arguments(text []byte) []byte {
	depth := 1
	for i, c := range text {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return text[:i]
			}
		}
	}
	return text
}
