// Command english counts phrases in Go comments that usually hide a plainer sentence, and compares
// their rate with the comments of riverqueue/river. It warns about each phrase above twice River's
// rate, with the packages that have most of it. It never fails.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// per is the number of words to which rates refer.
const per = 10_000

// phrases are the patterns with River's rates.
var phrases = []struct {
	name, instead string
	river         float64
	pattern       *regexp.Regexp
}{
	{"what", "name the thing", 2.5, words(`what`)},
	{"whose", "two sentences", 0.5, words(`whose`)},
	{"has come, gone, ended", "the simple past, or an adjective", 0.2, words(`(has|have|had) (come|gone|ended)`)},
	{"of its own", "its, a separate", 0.2, words(`of (its|their) own`)},
	{"beside, behind", "with, after", 1.2, words(`beside|behind`)},
}

func words(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(pattern, " ", `\s+`) + `)\b`)
}

// comment is a comment of a package in a folder.
type comment struct {
	folder, place, text string
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	comments, err := read(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "english: not checked:", err)
		return
	}
	report(os.Stdout, comments)
}

// read returns the comments of all Go files below root. Directives such as //go:embed do not count.
func read(root string) (comments []comment, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "node_modules" || len(name) > 1 && name[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range file.Comments {
			place := fmt.Sprint(path, ":", files.Position(group.Pos()).Line)
			comments = append(comments, comment{filepath.Dir(path), place, text(group)})
		}
		return nil
	})
	return comments, err
}

func text(group *ast.CommentGroup) string { return strings.Join(strings.Fields(group.Text()), " ") }

// report prints the warnings.
func report(out io.Writer, comments []comment) {
	total := 0
	for _, c := range comments {
		total += len(strings.Fields(c.text))
	}
	for _, p := range phrases {
		found, n := map[string][]string{}, 0 // by folder
		for _, c := range comments {
			for _, at := range p.pattern.FindAllStringIndex(c.text, -1) {
				n++
				from, to := max(at[0]-40, 0), min(at[1]+40, len(c.text))
				found[c.folder] = append(found[c.folder], fmt.Sprintf("%s: ...%s...", c.place, strings.ToValidUTF8(c.text[from:to], "")))
			}
		}
		rate := float64(n) * per / float64(max(total, 1))
		if rate <= 2*p.river {
			continue
		}
		fmt.Fprintf(out, "english: warning: %q: %.1f in %d words of comments, more than twice River's %.1f (better: %s)\n", p.name, rate, per, p.river, p.instead)
		folders := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
			return cmp.Or(cmp.Compare(len(found[b]), len(found[a])), cmp.Compare(a, b))
		})
		for _, folder := range folders[:min(3, len(folders))] {
			lines := found[folder]
			fmt.Fprintf(out, "  %s has %d, for example\n    %s\n", folder, len(lines), strings.Join(lines[:min(3, len(lines))], "\n    "))
		}
	}
}
