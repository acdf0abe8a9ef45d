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
	mostGo     = 8 // lines
	theLibrary = "docs/library.md"
)

var (
	ownWord    = regexp.MustCompile(`(?i)\b(?:sentinels?|fences?|fencing|rings?)\b`)
	goBlock    = regexp.MustCompile("(?s)```go\n(.*?)```")
	figure     = regexp.MustCompile(`(?m)\| (?:at most )?([\d.,]+(?: (?:ms|s|KiB|KB)\b)?)[^|]*\|$`)
	inCode     = regexp.MustCompile("`([^`]*)`")
	makeTarget = regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
	isExample  = regexp.MustCompile(`(?:^|/)example\w*_test\.go$|(?:^|/)examples/.*\.go$`)
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

// README shows something to run before it explains terms.
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
			t.Fatalf("%s has no Go code", name)
		}
		if n := strings.Count(blocks[0][1], "\n"); name == "README.md" && n > mostGo {
			t.Errorf("README.md has %d lines of Go, at most %d are allowed", n, mostGo)
		}
		for _, block := range blocks {
			if !strings.Contains(sources, "\n"+indented(block[1])) {
				t.Errorf("%s has code that is in no example*_test.go and not in examples/:\n%s", name, block[1])
			}
		}
	}
}

// indented returns code with the indentation of a function's body.
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

// The folders of CONTRIBUTING's table exist, and so do the targets of make that the pages name.
func TestPagesNameWhatIsThere(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(page(t, "CONTRIBUTING.md"), "| folder | holds |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := 0
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range inCode.FindAllStringSubmatch(first, -1) {
			rows++
			if info, err := os.Stat(filepath.Join(root, m[1])); err != nil || !info.IsDir() {
				t.Errorf("CONTRIBUTING.md has a row for %s, which is no folder", m[1])
			}
		}
	}
	if rows == 0 {
		t.Error("CONTRIBUTING.md has no table of folders")
	}
	makefile := page(t, "Makefile")
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "docs/README.md", "docs/commands.md", "docs/agents/tested.md"} {
		for _, m := range makeTarget.FindAllStringSubmatch(page(t, name), -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s names make %s, which is no target", name, m[1])
			}
		}
	}
}

// The figures of README are those of bench/README.md.
func TestReadmeHasTheFiguresOfTheBenchmarks(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(page(t, "README.md"), "\n| measured on ")
	table, _, _ = strings.Cut(table, "\n\n")
	figures := figure.FindAllStringSubmatch(table, -1)
	if rows := strings.Count(table, "\n") - 1; !found || len(figures) != rows {
		t.Fatalf("README.md has %d figures in %d rows", len(figures), rows)
	}
	bench := page(t, "bench/README.md")
	for _, f := range figures {
		if !strings.Contains(bench, f[1]) {
			t.Errorf("README.md says %s, which is no figure of bench/README.md", f[1])
		}
	}
}

// Each page below docs is in the index, or, if its folder has a page of that name, in that one.
func TestIndexHasEveryPage(t *testing.T) {
	t.Parallel()
	const index = "docs/README.md"
	found := 0
	err := fs.WalkDir(os.DirFS(filepath.Join(root, "docs")), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".md") || path == "README.md" {
			return err
		}
		found++
		lists := page(t, index)
		if text, err := os.ReadFile(filepath.Join(root, "docs", filepath.Dir(path)+".md")); err == nil {
			lists += string(text)
		}
		if !strings.Contains(lists, "]("+path) {
			t.Errorf("%s does not list docs/%s", index, path)
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d pages: %v", found, err)
	}
}
