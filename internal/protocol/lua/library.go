package lua

import (
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"turnstile/internal/redis/script"
)

// library has the functions and constants of lib, by name.
type library struct {
	files   fs.FS
	defined map[string]definition
	uses    map[string][]string // by definition: the names in it
}

func load(files fs.FS) (*library, error) {
	parts, err := fs.Glob(files, "lib/*.lua")
	if err != nil {
		return nil, err
	}
	l := &library{files, map[string]definition{}, map[string][]string{}}
	texts := []string{script.Prelude()}
	for _, part := range parts {
		text, err := fs.ReadFile(files, part)
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		list, err := definitions(text)
		if err != nil {
			return nil, err
		}
		for _, d := range list {
			if _, twice := l.defined[d.name]; twice {
				return nil, fmt.Errorf("%s is defined twice", d.name)
			}
			l.defined[d.name], l.uses[d.name] = d, slices.Sorted(maps.Keys(names(d.text)))
		}
	}
	return l, nil
}

// used returns the definitions that code uses, directly or not. Each comes after those that it uses
// itself.
func (l *library) used(code string) (list []definition) {
	done := map[string]bool{}
	var need func(name string)
	need = func(name string) {
		d, ours := l.defined[name]
		if !ours || done[name] {
			return
		}
		done[name] = true
		for _, used := range l.uses[name] {
			need(used)
		}
		list = append(list, d)
	}
	for _, name := range slices.Sorted(maps.Keys(names(code))) {
		need(name)
	}
	return list
}

// names returns the identifiers of a text, without those in comments and strings, and without names
// of fields.
func names(code string) map[string]bool {
	found := map[string]bool{}
	for _, name := range identifiers(code) {
		found[name] = true
	}
	return found
}

// identifiers returns the same with their places.
func identifiers(code string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for i := 0; i < len(code); i++ {
			switch c := code[i]; {
			case c == '-' && strings.HasPrefix(code[i:], "--"):
				i += comment(code[i:]) - 1
			case c == '\'' || c == '"':
				i += quoted(code[i:]) - 1
			case word(c):
				end := i + 1
				for end < len(code) && word(code[end]) {
					end++
				}
				if (i == 0 || code[i-1] != '.') && !yield(i, code[i:end]) {
					return
				}
				i = end - 1
			}
		}
	}
}

func word(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// comment returns the length of the comment at the beginning of a text.
func comment(code string) int {
	if end := strings.IndexByte(code, '\n'); end >= 0 {
		return end
	}
	return len(code)
}

// quoted returns the length of the string at the beginning of a text.
func quoted(code string) int {
	for i := 1; i < len(code); i++ {
		switch code[i] {
		case '\\':
			i++
		case code[0]:
			return i + 1
		}
	}
	return len(code)
}

// bare returns code without comments and with empty strings.
func bare(code string) string {
	var out strings.Builder
	for i := 0; i < len(code); i++ {
		switch c := code[i]; {
		case c == '-' && strings.HasPrefix(code[i:], "--"):
			i += comment(code[i:]) - 1
		case c == '\'' || c == '"':
			out.WriteString("''")
			i += quoted(code[i:]) - 1
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// definition is a function or a constant of the library.
type definition struct {
	name string
	doc  string // the comment above it
	text string
}

var defined = regexp.MustCompile(`^local (?:function )?([A-Za-z_]\w*)`)

// definitions splits a file of the library. A definition begins in the first column. It ends in the
// same line, or with an end or a brace in the first column.
func definitions(text string) (all []definition, err error) {
	var open *definition
	doc := ""
	for line := range strings.Lines(text) {
		code := strings.TrimRight(line, "\n")
		switch {
		case open != nil:
			open.text += line
			if code == "end" || code == "}" {
				all, open = append(all, *open), nil
			}
		case strings.HasPrefix(code, "--"):
			doc += line
		case code == "":
			doc = ""
		default:
			m := defined.FindStringSubmatch(code)
			if m == nil {
				return nil, fmt.Errorf("no definition: %q", code)
			}
			d := definition{name: m[1], doc: doc, text: line}
			doc = ""
			function := strings.HasPrefix(code, "local function")
			if bare := strings.TrimRight(bare(code), " "); function && strings.HasSuffix(bare, " end") || !function && !strings.HasSuffix(bare, "{") {
				all = append(all, d)
			} else {
				open = &d
			}
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s has no end", open.name)
	}
	return all, nil
}
