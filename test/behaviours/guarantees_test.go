package behaviours

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"turnstile/test/expect"
)

var (
	anyTest    = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	namedTests = regexp.MustCompile("`((?:pkg|internal|cmd|test)/[\\w/]+|" + rootPackage + ")`\\s+(Test\\w+(?:,\\s+Test\\w+)*)")
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
		if name == "docs/behaviours.md" {
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
			promises(t, string(text), "tests")
		case name == "docs/agents/tested.md":
			promises(t, string(text), "run here")
		case strings.Contains(string(text), "\n| promise | test |\n"):
			promises(t, string(text), "test")
		}
	}
}

// promises checks the tables whose last column has this head.
func promises(t *testing.T, text, head string) {
	t.Helper()
	rows, within := 0, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "| "), "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case !strings.HasPrefix(line, "|"):
			within = false
		case last == head:
			within = true
		case within && !strings.HasPrefix(line, "|--"):
			rows++
			if !namedTests.MatchString(last) && !strings.Contains(last, "bench/") && last != "not run here" {
				t.Errorf("a promise without a test or a figure: %s", line)
			}
		}
	}
	if rows == 0 {
		t.Errorf("no table with the column %q", head)
	}
}

// testsIn are the names of a package's tests.
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
