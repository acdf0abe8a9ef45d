package reference_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"turnstile/internal/script"
	"turnstile/test/reference"
)

// TestMutations shows that the model can fail the scripts: each of the mutations, one
// small change to a script, parts the two within so many lives.
func TestMutations(t *testing.T) {
	patches, err := filepath.Glob("testdata/mutations/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatal("there are no mutations", err)
	}
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(patch), ".patch"), func(t *testing.T) {
			t.Parallel()
			m := readMutation(t, patch)
			r := newRedis(t, m.of)
			if r.live(randomLife(m.life, lifeOps), reference.AsLanded) != nil {
				return
			}
			for seed := range uint64(mostLives) {
				if r.live(randomLife(seed, lifeOps), reference.AsLanded) != nil {
					t.Logf("write life: %d into %s, that is faster", seed, patch)
					return
				}
			}
			t.Errorf("survives %d lives", mostLives)
		})
	}
}

// mutation is a small change to a script's source, and the life that shows it.
type mutation struct {
	of   func(source string) string
	life uint64
}

// readMutation reads a patch. Its first line names the script's file, in
// pkg/sessionqueue/lua or as resume/NAME of pkg/resume; a second one may name a life
// that shows the mutation. The rest is one hunk of a unified diff without line numbers.
func readMutation(t *testing.T, name string) (m mutation) {
	t.Helper()
	head, hunk, _ := strings.Cut(read(t, name), "\n")
	file, named := strings.CutPrefix(head, "lua: ")
	if !named {
		t.Fatalf("%s does not begin with lua: and a file's name", name)
	}
	if hint, rest, _ := strings.Cut(hunk, "\n"); strings.HasPrefix(hint, "life: ") {
		n, err := strconv.ParseUint(strings.TrimPrefix(hint, "life: "), 10, 32)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m.life, hunk = n, rest
	}
	text := luaFile(t, file)
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
	if n := strings.Count(text, before.String()); n != 1 {
		t.Fatalf("%s: its old text occurs %d times in %s, not once: adapt the mutation to the script", name, n, file)
	}
	mutant := strings.Replace(text, before.String(), after.String(), 1)
	uses := 0
	for _, s := range script.All() {
		uses += strings.Count(s.Source, text)
	}
	if uses == 0 {
		t.Fatalf("%s: no script has %s", name, file)
	}
	m.of = func(source string) string { return strings.Replace(source, text, mutant, 1) }
	return m
}

func luaFile(t *testing.T, name string) string {
	t.Helper()
	if strings.HasPrefix(name, "resume/") {
		return read(t, filepath.Join("../../pkg", name))
	}
	return read(t, filepath.Join("../../pkg/sessionqueue/lua", name))
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
