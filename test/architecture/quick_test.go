package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"turnstile/test/expect"
)

// starts are the calls in a test that start a program, by package and function.
var starts = regexp.MustCompile(`^(exec|osexec)\.(Command|CommandContext|New)$|^(cli|acp)\.New$|^os\.StartProcess$`)

// within are functions that run only in a program that a test has started.
var within = map[string]bool{"pkg/worker run": true}

// A test function that starts a program, in a package that make quick has, calls expect.NotQuick.
// Programs that other packages start, such as a model's tools, are not found here.
func TestQuickStartsNoPrograms(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	expect.OK(t, err)
	pattern := regexp.MustCompile(`(?m)^PROGRAMS := (.*)$`).FindSubmatch(makefile)
	left := regexp.MustCompile(string(pattern[1]))
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}} {{.Dir}}", "./...")
	list.Dir = "../.."
	out, err := list.Output()
	expect.OK(t, err)
	found := 0
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		if left.MatchString(path) {
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		expect.OK(t, err)
		for _, name := range files {
			source, err := os.ReadFile(name)
			expect.OK(t, err)
			quick, all := starters(t, string(source))
			found += all
			for _, function := range quick {
				if where := strings.TrimPrefix(path, ownPath); !within[where+" "+function] {
					t.Errorf("%s, %s: starts a program in make quick: call expect.NotQuick there", where, function)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d functions that start programs were found", found)
	}
}

func TestStartersAreFound(t *testing.T) {
	t.Parallel()
	quick, all := starters(t, `package x
func a() { exec.Command("sh") }
func b() { expect.NotQuick(t); exec.CommandContext(ctx, "sh") }
func c() { expect.Unraced(t); for { go func() { _ = osexec.Command("sh") }() } }
func d() { a, err := exec.New(exec.Config{}) }
func e() { errors.New("x") }`)
	expect.List(t, "without NotQuick", quick, "a", "d")
	expect.Equal(t, "all", all, 4)
}

// starters returns the functions of a source that start a program also in make quick, and the number of all that start one.
func starters(t *testing.T, source string) (quick []string, all int) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	expect.OK(t, err)
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		started, skipped := false, false
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); ok {
				of, _ := s.X.(*ast.Ident)
				name := s.Sel.Name
				started = started || of != nil && starts.MatchString(of.Name+"."+name)
				skipped = skipped || of != nil && of.Name == "expect" && (name == "NotQuick" || name == "Unraced")
			}
			return true
		})
		if started {
			all++
			if !skipped {
				quick = append(quick, f.Name.Name)
			}
		}
	}
	return quick, all
}
