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
	mostPackages = 8
)

// The functions that the walk names exist in the files that it names, and it has no more hops than
// it says.
func TestWalk(t *testing.T) {
	t.Parallel()
	hops, err := Read("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
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
