// Package behaviours has no code: its tests compare the pages of docs/ with the tests, the words
// and the files that they name.
package behaviours

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"turnstile/test/expect"
)

var update = flag.Bool("update", false, "rewrite the tests' names in docs/internals/behaviours.md")

const root = "../.."

// rootPackage is how pages name the package in the root folder.
const rootPackage = "turnstile"

var (
	testFunc = regexp.MustCompile(`(?m)^func (Test((?:B\d+_)+)\w+)\(`)
	tableRow = regexp.MustCompile(`^\| (B\d+) \| ([^|]*) \| ([^|]*) \|$`)
)

// testsByRow finds the tests that are named after a row, as `package` Test.
func testsByRow(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if folder == "." {
			folder = rootPackage
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(src), -1) {
			for row := range strings.SplitSeq(strings.TrimSuffix(m[2], "_"), "_") { // a test may show several rows
				found[row] = append(found[row], fmt.Sprintf("`%s` %s", filepath.ToSlash(folder), m[1]))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestPageNamesTheTests(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	page := filepath.Join(root, "docs", "internals", "behaviours.md")
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := testsByRow(t)
	lines := strings.Split(string(old), "\n")
	for i, line := range lines {
		m := tableRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		tests := found[m[1]]
		delete(found, m[1])
		if len(tests) == 0 {
			t.Errorf("row %s has no test", m[1])
			continue
		}
		slices.Sort(tests)
		lines[i] = fmt.Sprintf("| %s | %s | %s |", m[1], m[2], strings.Join(tests, ", "))
	}
	for row, tests := range found {
		t.Errorf("docs/internals/behaviours.md lacks row %s, which %v are named after", row, tests)
	}
	now := strings.Join(lines, "\n")
	if now == string(old) {
		return
	}
	if !*update {
		t.Fatal("docs/internals/behaviours.md is out of date: go test ./test/behaviours -update")
	}
	if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}
