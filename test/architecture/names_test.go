package architecture

import (
	"go/ast"
	"go/doc"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// libraries are the packages for other Go programs, by the names that comments and pages use.
var libraries = map[string]string{
	"turnstile": ".", "session": "pkg/session", "admin": "pkg/admin", "agent": "pkg/agent", "worker": "pkg/worker",
	"program": "pkg/program", "lockguard": "pkg/lockguard", "resume": "pkg/resume",
}

// exported returns a package's exported names, and TYPE.MEMBER for fields and methods.
func exported(pkg *doc.Package) map[string]bool {
	names := map[string]bool{}
	values := func(all []*doc.Value) {
		for _, v := range all {
			for _, name := range v.Names {
				names[name] = true
			}
		}
	}
	funcs := func(prefix string, all []*doc.Func) {
		for _, f := range all {
			names[prefix+f.Name] = true
		}
	}
	values(pkg.Consts)
	values(pkg.Vars)
	funcs("", pkg.Funcs)
	for _, typ := range pkg.Types {
		names[typ.Name] = true
		values(typ.Consts)
		values(typ.Vars)
		funcs("", typ.Funcs)
		funcs(typ.Name+".", typ.Methods)
		ast.Inspect(typ.Decl, func(n ast.Node) bool {
			if list, ok := n.(*ast.FieldList); ok {
				for _, field := range list.List {
					for _, name := range field.Names {
						names[typ.Name+"."+name.Name] = true
					}
				}
			}
			return true
		})
	}
	return names
}

// qualified is PACKAGE.NAME or PACKAGE.TYPE.MEMBER in a text.
var qualified = regexp.MustCompile(`(?:^|[^\w./])([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)

// member is TYPE.MEMBER in a text.
var member = regexp.MustCompile(`(?:^|[^\w./])([A-Z]\w*)\.([A-Z]\w*)`)

// absent returns the names in a text that packages lack.
func absent(text string, packages map[string]map[string]bool) (names []string) {
	for _, m := range qualified.FindAllStringSubmatch(text, -1) {
		all, ours := packages[m[1]]
		switch {
		case !ours:
		case !all[m[2]]:
			names = append(names, m[1]+"."+m[2])
		case m[3] != "" && !all[m[2]+"."+m[3]]:
			names = append(names, m[1]+"."+m[2]+"."+m[3])
		}
	}
	for _, m := range member.FindAllStringSubmatch(text, -1) {
		known, found := false, false
		for _, all := range packages {
			known, found = known || all[m[1]], found || all[m[1]+"."+m[2]]
		}
		if known && !found {
			names = append(names, m[1]+"."+m[2])
		}
	}
	return names
}

// The names of the library that comments and pages mention exist.
func TestMentionedNamesExist(t *testing.T) {
	t.Parallel()
	packages := map[string]map[string]bool{}
	for name, folder := range libraries {
		packages[name] = exported(documented(t, folder))
	}
	var paths []string
	for _, pattern := range []string{"*.go", "pkg/*/*.go", "docs/*.md", "docs/*/*.md", "README.md", "CONTRIBUTING.md"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		if strings.HasSuffix(path, ".go") { // a variable in code may have a package's name
			text = comments(text)
		}
		for _, name := range absent(text, packages) {
			t.Errorf("%s: there is no %s", path, name)
		}
	}
	got := absent("session.Gone, session.Event.Gone and a/session.Gone, Session.Gone, but turnstile.Session.Send, Session.Send", packages)
	if want := []string{"session.Gone", "session.Event.Gone", "Session.Gone"}; !slices.Equal(got, want) {
		t.Errorf("absent finds %q, want %q", got, want)
	}
}

// comments returns the lines of a Go file that are comments.
func comments(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if _, comment, ok := strings.Cut(line, "// "); ok {
			lines = append(lines, comment)
		}
	}
	return strings.Join(lines, "")
}
