package behaviours

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	mostWords  = 1000
	theLibrary = "docs/library.md"
)

var (
	ownWord   = regexp.MustCompile(`(?i)\b(?:sentinels?|fences?|fencing|rings?)\b`)
	goBlock   = regexp.MustCompile("(?s)```go\n(.*?)```")
	isExample = regexp.MustCompile(`(?:^|/)example\w*_test\.go$|(?:^|/)examples/.*\.go$`)
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReadmeIsShort(t *testing.T) {
	t.Parallel()
	if words := len(strings.Fields(page(t, "README.md"))); words > mostWords {
		t.Errorf("README.md has %d words, at most %d are allowed: what a first reader does not need belongs into docs/", words, mostWords)
	}
}

// A first reader runs something before he learns a word.
func TestReadmeHasACommandBeforeItsWords(t *testing.T) {
	t.Parallel()
	readme := page(t, "README.md")
	before, _, found := strings.Cut(readme, "```sh\n")
	if !found {
		t.Fatal("README.md has no command")
	}
	if word := ownWord.FindString(before); word != "" {
		t.Errorf("README.md says %q before its first command", word)
	}
	if promise := "At-least-once execution, exactly-once transcript; fence your side effects."; !strings.Contains(readme, promise) {
		t.Errorf("README.md does not say %q", promise)
	}
}

// The Go code of these pages is part of an example that is run by a test.
func TestGoOfThePagesIsRun(t *testing.T) {
	t.Parallel()
	sources := exampleSources(t)
	for _, name := range []string{"README.md", theLibrary} {
		blocks := goBlock.FindAllStringSubmatch(page(t, name), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no Go code", name)
		}
		for _, block := range blocks {
			if !strings.Contains(sources, "\n"+indented(block[1])) {
				t.Errorf("%s has code that is in no example*_test.go and not in examples/:\n%s", name, block[1])
			}
		}
	}
}

// indented is code as it stands in a function.
func indented(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if strings.TrimSpace(line) != "" {
			b.WriteString("\t")
		}
		b.WriteString(line)
	}
	return b.String()
}

func exampleSources(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(path) > 1 && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !isExample.MatchString(path):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
