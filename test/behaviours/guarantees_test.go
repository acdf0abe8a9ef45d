package behaviours

import (
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"turnstile/test/expect"
)

var (
	anyTest    = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	namedTests = regexp.MustCompile("`((?:pkg|internal|cmd|test|deploy)/[\\w/]+|" + rootPackage + ")`\\s+(Test\\w+(?:,\\s+Test\\w+)*)")
	testName   = regexp.MustCompile(`\w+`)
	looseTest  = regexp.MustCompile(`\bTest[A-LN-Z]\w+|\bTestM[^a]\w+`) // TestMain shows nothing
)

// Every test that a page names exists, and every promise in a table of them has a test or a figure.
func TestPagesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	expect.Unraced(t)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(filepath.ToSlash(page), root+"/")
		if name == "docs/internals/behaviours.md" {
			continue // TestPageNamesTheTests
		}
		for _, m := range namedTests.FindAllStringSubmatch(string(text), -1) {
			known := testsIn(t, m[1])
			for _, test := range testName.FindAllString(m[2], -1) {
				if !known[test] {
					t.Errorf("%s names %s of %s, which is not there", name, test, m[1])
				}
			}
		}
		if left := looseTest.FindString(namedTests.ReplaceAllString(string(text), "")); left != "" {
			t.Errorf("%s names %s without its package before it", name, left)
		}
		switch {
		case name == "docs/guarantees.md":
			named(t, string(text), promises(t, string(text), "tests"))
		case name == "docs/agents/tested.md":
			promises(t, string(text), "run here")
		case strings.Contains(string(text), "\n| promise | test |\n"):
			promises(t, string(text), "test")
		}
	}
}

// promises checks the tables with this head of their last column, and returns their first column.
func promises(t *testing.T, text, head string) (names []string) {
	t.Helper()
	for row := range rows(text) {
		last := row.cells[len(row.cells)-1]
		if row.head[len(row.head)-1] != head {
			continue
		}
		names = append(names, row.cells[0])
		if !namedTests.MatchString(last) && !strings.Contains(last, "bench/") && last != "not run here" {
			t.Errorf("a promise without a test or a figure: %s", row.cells)
		}
	}
	if len(names) == 0 {
		t.Errorf("no table with the column %q", head)
	}
	return names
}

// boldName is the beginning of an item of a list that is a promise or its limit.
var boldName = regexp.MustCompile(`(?m)^- \*\*(.+?)\.?\*\*`)

// named checks that the page's table of tests has each promise of its other tables, once, and no name
// that is not on the page.
func named(t *testing.T, text string, tested []string) {
	t.Helper()
	var limits []string
	for _, m := range boldName.FindAllStringSubmatch(text, -1) {
		limits = append(limits, m[1])
	}
	seen := map[string]int{}
	for _, name := range tested {
		seen[name]++
	}
	for row := range rows(text) {
		name := row.cells[0]
		if row.head[len(row.head)-1] == "tests" {
			continue
		}
		if seen[name] != 1 {
			t.Errorf("the promise %q is %d times in the table of tests", name, seen[name])
		}
		delete(seen, name)
	}
	for name := range seen {
		if !slices.Contains(limits, name) {
			t.Errorf("the table of tests has %q, which is no promise of the page", name)
		}
	}
}

// row is a line of a table of Markdown.
type row struct{ head, cells []string }

// rows visits the rows of all tables of a page.
func rows(text string) iter.Seq[row] {
	return func(yield func(row) bool) {
		var head []string
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "|") {
				head = nil
				continue
			}
			cells := strings.Split(strings.Trim(line, "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if head == nil {
				head = cells
			} else if !strings.HasPrefix(line, "|--") && !yield(row{head, cells}) {
				return
			}
		}
	}
}

// testsIn returns the names of a package's tests.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	if folder == rootPackage {
		folder = "."
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range anyTest.FindAllStringSubmatch(string(src), -1) {
			known[m[1]] = true
		}
	}
	return known
}
