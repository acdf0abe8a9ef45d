package architecture

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// library are the packages that programs import, from this directory.
var library = []string{
	"../..", "../../pkg/session", "../../pkg/admin", "../../pkg/lockguard", "../../pkg/resume",
	"../../pkg/worker", "../../pkg/program", "../../pkg/agent", "../../pkg/agent/acp", "../../pkg/agent/cli", "../../pkg/agent/echo", "../../pkg/agent/exec", "../../pkg/agent/model",
}

// tried are packages in which a runnable example calls each exported function.
// TestPublicFunctionsHaveExamples checks the others.
var tried = []string{"../../pkg/session", "../../pkg/agent", "../../pkg/lockguard", "../../pkg/resume"}

// twoScreens is how many lines of `go doc` a reader takes in.
const twoScreens = 80

func TestGoDocFitsOnTwoScreens(t *testing.T) {
	t.Parallel()
	for _, dir := range library {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "go", "doc")
			cmd.Dir = dir
			text, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if lines := strings.Count(string(text), "\n"); lines == 0 || lines > twoScreens {
				t.Errorf("go doc has %d lines, at most %d are meant:\n%s", lines, twoScreens, text)
			}
		})
	}
}

// implicit are the methods that other packages call: fmt, errors, encoding.
var implicit = []string{"Error", "Is", "Unwrap", "String", "MarshalText", "UnmarshalText", "MarshalJSON", "UnmarshalJSON"}

func TestExportedFunctionsAreCalledInExamples(t *testing.T) {
	t.Parallel()
	for _, dir := range tried {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			exported, called := functions(t, dir)
			if len(exported) == 0 {
				t.Error("no exported function: is this the directory?")
			}
			for _, name := range exported {
				_, method, isMethod := strings.Cut(name, ".")
				if !isMethod {
					method = name
				}
				if !called[method] && !slices.Contains(implicit, method) {
					t.Errorf("no example with an output calls %s", name)
				}
			}
		})
	}
}

// functions are the exported functions and methods of a package, and the names that its runnable
// examples call. Examples may call helpers, so calls in helpers count.
func functions(t *testing.T, dir string) (exported []string, called map[string]bool) {
	t.Helper()
	files := token.NewFileSet()
	//nolint:staticcheck // ParseDir ignores build tags, of which these packages have none
	packages, err := parser.ParseDir(files, dir, func(fs.FileInfo) bool { return true }, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	called = map[string]bool{}
	for name, p := range packages {
		for path, file := range p.Files {
			if !strings.HasSuffix(path, "_test.go") {
				exported = append(exported, exportedIn(file)...)
				continue
			}
			if !strings.HasSuffix(name, "_test") {
				continue
			}
			runs := slices.ContainsFunc(doc.Examples(file), func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput })
			if !runs {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if s, ok := call.Fun.(*ast.SelectorExpr); ok {
						called[s.Sel.Name] = true
					}
				}
				return true
			})
		}
	}
	return exported, called
}

func exportedIn(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !f.Name.IsExported() {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			receiver := f.Recv.List[0].Type
			if star, ok := receiver.(*ast.StarExpr); ok {
				receiver = star.X
			}
			of, ok := receiver.(*ast.Ident)
			if !ok || !of.IsExported() {
				continue
			}
			name = of.Name + "." + name
		}
		names = append(names, name)
	}
	return names
}
