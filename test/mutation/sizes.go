package mutation

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sizeNames are the ends of the names of batches, pages and caps that are counts. Sizes in bytes have another form.
var sizeNames = regexp.MustCompile(`(?i)(batch|page|chunk|looks|scans|scaleMost|takeMost|withdrawnMost|atonce)$`)

// Small returns the files of folders of root in which a constant is such a count, with a small one instead: path to text.
// A test of a few values is one of several batches then.
func Small(root string, count int, folders ...string) (texts map[string]string, err error) {
	texts = map[string]string{}
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			path, err := filepath.Abs(path)
			if err != nil {
				return nil, err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			made, changed, err := small(string(text), count)
			if err != nil {
				return nil, err
			}
			if changed && !strings.HasSuffix(path, "_test.go") {
				texts[path] = made
			}
		}
	}
	return texts, nil
}

// small returns a file with small counts.
func small(text string, count int) (made string, changed bool, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, 0)
	if err != nil {
		return "", false, err
	}
	var found []*ast.BasicLit
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			spec, _ := s.(*ast.ValueSpec)
			for i, name := range spec.Names {
				if i < len(spec.Values) && sizeNames.MatchString(name.Name) {
					if n, ok := spec.Values[i].(*ast.BasicLit); ok && n.Kind == token.INT {
						found = append(found, n)
					}
				}
			}
		}
	}
	for _, n := range slices.Backward(found) {
		at := files.Position(n.Pos()).Offset
		text = text[:at] + strconv.Itoa(count) + text[at+len(n.Value):]
	}
	return text, len(found) > 0, nil
}
