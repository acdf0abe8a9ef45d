package architecture

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// public are packages in which each function has an example. untried has the functions without an
// example that runs, with the reason.
var public = []struct {
	folder  string
	untried map[string]string
}{
	{".", nil},
	{"pkg/worker", nil},
	{"pkg/program", map[string]string{
		"Init": "it is for a process of its own; its example compiles, and examples/custom-agent is tested",
		"Exit": "it ends the process; Init's example has it, and examples/custom-agent is tested",
	}},
	{"pkg/admin", nil},
	{"pkg/agent/acp", nil},
	{"pkg/agent/cli", nil},
	{"pkg/agent/echo", nil},
	{"pkg/agent/exec", map[string]string{"Init": beforeMain}},
	{"pkg/agent/model", nil},
}

// beforeMain is the reason why an example does not run: its call changes the whole process.
const beforeMain = "main calls it first; its example compiles, and TestMain calls it in the package's tests"

// Each exported function and method has an example with compared output, and each exported
// identifier has a comment.
func TestPublicFunctionsHaveExamples(t *testing.T) {
	t.Parallel()
	for _, p := range public {
		t.Run(p.folder, func(t *testing.T) {
			t.Parallel()
			pkg := documented(t, p.folder)
			names := map[string]bool{}
			check := func(prefix string, all []*doc.Func) {
				for _, f := range all {
					name := prefix + f.Name
					names[name] = true
					_, untried := p.untried[name]
					switch runs := anyRuns(f.Examples); {
					case f.Doc == "":
						t.Errorf("%s has no comment", name)
					case !runs && !untried:
						t.Errorf("%s has no example with output", name)
					case runs && untried:
						t.Errorf("%s has an example with output: take it from untried", name)
					}
				}
			}
			check("", pkg.Funcs)
			for _, typ := range pkg.Types {
				if typ.Doc == "" {
					t.Errorf("type %s has no comment", typ.Name)
				}
				check("", typ.Funcs)
				check(typ.Name+".", typ.Methods)
			}
			for name := range p.untried {
				if !names[name] {
					t.Errorf("untried names %s, which is not there", name)
				}
			}
			if len(names) == 0 {
				t.Error("no function was found")
			}
		})
	}
}

func anyRuns(examples []*doc.Example) bool {
	for _, e := range examples {
		if e.Output != "" || e.EmptyOutput {
			return true
		}
	}
	return false
}

// documented parses a package with its tests.
func documented(t *testing.T, folder string) *doc.Package {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(set, files, ownPath+folder)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}
