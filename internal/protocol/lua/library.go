package lua

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"turnstile/internal/script"
)

// library is the functions and constants of lib, by name.
type library struct {
	files   fs.FS
	defined map[string]definition
}

func load(files fs.FS) (*library, error) {
	parts, err := fs.Glob(files, "lib/*.lua")
	if err != nil {
		return nil, err
	}
	l := &library{files, map[string]definition{}}
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
			l.defined[d.name] = d
		}
	}
	return l, nil
}

// used is what code uses of the library, directly or not: what uses another comes behind
// that.
func (l *library) used(code string) (list []definition) {
	done := map[string]bool{}
	var need func(name string)
	need = func(name string) {
		d, ours := l.defined[name]
		if !ours || done[name] {
			return
		}
		done[name] = true
		for _, used := range d.uses {
			need(used)
		}
		list = append(list, d)
	}
	for _, name := range slices.Sorted(maps.Keys(names(code))) {
		need(name)
	}
	return list
}

// names are the identifiers that a text uses, without those in comments and strings and
// those of fields.
func names(code string) map[string]bool {
	found := map[string]bool{}
	for _, m := range identifier.FindAllStringSubmatch(bare(code), -1) {
		found[m[2]] = true
	}
	return found
}

var (
	identifier = regexp.MustCompile(`(^|[^.\w])([A-Za-z_]\w*)`)
	noise      = regexp.MustCompile(`'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|--[^\n]*`)
)

// bare is code without comments and strings.
func bare(code string) string {
	return noise.ReplaceAllStringFunc(code, func(m string) string {
		if strings.HasPrefix(m, "--") {
			return ""
		}
		return "''"
	})
}

// definition is a function or a constant of the library.
type definition struct {
	name string
	text string
	uses []string // names
}

var defined = regexp.MustCompile(`^local (?:function )?([A-Za-z_]\w*)`)

// definitions splits a file of the library: each begins in the first column, and ends in
// its line, or with an end or a brace there.
func definitions(text string) (all []definition, err error) {
	var open *definition
	for line := range strings.Lines(text) {
		code := strings.TrimRight(line, "\n")
		switch {
		case open != nil:
			open.text += line
			if code == "end" || code == "}" {
				all, open = append(all, *open), nil
			}
		case code == "" || strings.HasPrefix(code, "--"):
		default:
			m := defined.FindStringSubmatch(code)
			if m == nil {
				return nil, fmt.Errorf("no definition: %q", code)
			}
			d := definition{name: m[1], text: line}
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
	for i := range all {
		for name := range names(all[i].text) {
			if name != all[i].name {
				all[i].uses = append(all[i].uses, name)
			}
		}
		slices.Sort(all[i].uses)
	}
	return all, nil
}
