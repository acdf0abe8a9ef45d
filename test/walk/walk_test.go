package walk

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

const (
	mostHops     = 60
	mostPackages = 10
)

// The functions that the walk names exist in the files that it names, and it has no more hops than
// it says.
func TestWalk(t *testing.T) {
	t.Parallel()
	page, err := Read("../../docs/internals/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	hops := page.Hops
	if len(hops) < 30 || len(hops) > mostHops {
		t.Errorf("%d hops, want at most %d, and enough to follow", len(hops), mostHops)
	}
	packages := map[string]bool{}
	for _, h := range hops {
		packages[h.Package()] = true
		if !has(t, h) {
			t.Errorf("%s: there is no such function", h)
		}
	}
	if len(packages) > mostPackages {
		t.Errorf("through %d packages, want at most %d: %v", len(packages), mostPackages, packages)
	}
	if counted := (Totals{Functions: len(hops), Packages: len(packages)}); page.Walk != counted {
		t.Errorf("the page counts %+v, it has %+v", page.Walk, counted)
	}
}

func TestCompareAllowsTheMargin(t *testing.T) {
	t.Parallel()
	page := Page{Passed: Totals{Functions: 200, Packages: 9}}
	for _, c := range []struct {
		measured Totals
		right    bool
	}{
		{Totals{200, 9}, true},
		{Totals{200 + margin, 9}, true},
		{Totals{200 - margin, 9}, true},
		{Totals{201 + margin, 9}, false},
		{Totals{199 - margin, 9}, false},
		{Totals{200, 9 + packageMargin}, true},
		{Totals{200, 10 + packageMargin}, false},
	} {
		if err := page.Compare(c.measured); (err == nil) != c.right {
			t.Errorf("%+v: %v", c.measured, err)
		}
	}
}

// has reports whether the hop's file declares its function.
func has(t *testing.T, h Hop) bool {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", h.File), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return false
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && Name(f) == h.Func {
			return true
		}
	}
	return false
}
