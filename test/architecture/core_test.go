package architecture

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The page says how many lines of Go a program links that sends, runs turns or operates, and how many of them are
// the protocol's. It rounds to hundreds, and may be wrong by a twentieth.
func TestPageCountsTheCore(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "internals", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, of, in string }{
		{"a program that sends", ".", ""},
		{"a program that runs turns", "./pkg/worker", ""},
		{"a program that operates", "./pkg/admin", ""},
		{"the core, in each of them", "./pkg/worker", "internal/protocol"},
	} {
		row := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %s \|.*\| ([\d,]+) \|$`, c.what)).FindSubmatch(page)
		if row == nil {
			t.Errorf("docs/internals/architecture.md has no row %q", c.what)
			continue
		}
		said, err := strconv.Atoi(strings.ReplaceAll(string(row[1]), ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		if is := linked(t, c.of, c.in); math.Abs(float64(is-said)) > float64(is)/20 {
			t.Errorf("docs/internals/architecture.md says %d lines for %q, it is %d", said, c.what, is)
		}
	}
}

// linked counts the lines of Go in the packages of this module that a package imports, directly or not, itself
// included. With in, only those in that folder.
func linked(t *testing.T, of, in string) (lines int) {
	t.Helper()
	for _, p := range list(t, "-deps", of) {
		folder := p.folder()
		if p.ImportPath+"/" != ownPath && !strings.HasPrefix(p.ImportPath, ownPath) || !strings.HasPrefix(folder, in) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines += bytes.Count(text, []byte("\n"))
		}
	}
	return lines
}
