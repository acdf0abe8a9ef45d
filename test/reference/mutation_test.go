package reference_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnstile/test/expect"
	"turnstile/test/mutation"
)

// TestMutations shows that the model finds faults in the scripts: with each mutation, a small
// change to a script, the two differ. The corpus has a life, with the mutation's name, that shows
// the difference. If there is none, or it no longer shows it, a few hundred random lives are tried.
// REFERENCE_WRITE=1 tries a few thousand, and writes those that show it into the corpus.
func TestMutations(t *testing.T) {
	expect.Unraced(t)
	patches, err := filepath.Glob("testdata/mutations/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatal("there are no mutations", err)
	}
	write, most := os.Getenv("REFERENCE_WRITE") != "", uint64(mostLives)
	if write {
		most *= 10
	}
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRedis(t, readMutation(t, patch))
			if data, ok := readCorpus(name); ok && r.live(data) != nil {
				return
			}
			data := r.first(most)
			if data == nil {
				t.Fatalf("survives %d lives", most)
			}
			data, d := r.shrink(data)
			t.Run("without it", func(t *testing.T) {
				if same := newRedis(t, nil).live(data); same != nil {
					t.Fatalf("differs, too:\n%s", same)
				}
			})
			switch {
			case write:
				writeCorpus(t, name, data)
			default:
				t.Logf("the corpus has no life that shows it: REFERENCE_WRITE=1 writes one. Found:\n%s", d)
			}
		})
	}
}

// readMutation reads a patch. Its first line names the script's file, in internal/protocol/lua or
// as resume/NAME of pkg/resume. The rest is one hunk of a unified diff without line numbers. It
// returns the change of a source that has the file in it.
func readMutation(t *testing.T, name string) func(source string) string {
	t.Helper()
	head, hunk, _ := strings.Cut(read(t, name), "\n")
	file, named := strings.CutPrefix(head, "lua: ")
	if !named {
		t.Fatalf("%s does not begin with lua: and a file's name", name)
	}
	var before, after strings.Builder
	for line := range strings.Lines(hunk) {
		switch rest := line[1:]; line[0] {
		case ' ':
			before.WriteString(rest)
			after.WriteString(rest)
		case '-':
			before.WriteString(rest)
		case '+':
			after.WriteString(rest)
		default:
			t.Fatalf("%s: a line begins with neither a blank, - nor +: %q", name, line)
		}
	}
	if strings.HasPrefix(file, "resume/") {
		text := read(t, filepath.Join("../../pkg", file))
		if n := strings.Count(text, before.String()); n != 1 {
			t.Fatalf("%s: its old text occurs %d times in %s, not once: adapt the mutation to the script", name, n, file)
		}
		return func(source string) string {
			return strings.Replace(source, text, strings.Replace(text, before.String(), after.String(), 1), 1)
		}
	}
	changed, err := mutation.Change(file, before.String(), after.String())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return func(source string) string {
		if mutant, ok := changed[source]; ok {
			return mutant
		}
		return source
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
