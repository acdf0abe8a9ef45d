// Package mutation puts faults into Lua scripts, and into other files. Tests must notice them.
//
// A mutation is a file: a head of "name: value" lines with at least
//
//	lua: finish.lua
//
// of internal/protocol/lua, or "file: PATH" of any file of the tree, then an empty line and one hunk in the form of diff -u, without its
// line numbers. The text that the hunk removes must occur once in that file.
package mutation

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"

	"turnstile/internal/protocol/lua"
	"turnstile/internal/script"
)

// Mutation is one change of one Lua file.
type Mutation struct {
	Name string            // the file's, without .patch
	Head map[string]string // lua or file, and other names
	old  string
	new  string
}

// Load reads the mutations of a directory.
func Load(dir string) ([]Mutation, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []Mutation
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		m.Name = strings.TrimSuffix(filepath.Base(file), ".patch")
		all = append(all, m)
	}
	return all, nil
}

func parse(text string) (Mutation, error) {
	m := Mutation{Head: map[string]string{}}
	head, hunk, ok := strings.Cut(text, "\n\n")
	if !ok {
		return m, fmt.Errorf("there is no empty line behind its head")
	}
	for line := range strings.Lines(head) {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return m, fmt.Errorf("%q in its head is no name: value", line)
		}
		m.Head[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	var old, changed strings.Builder
	for line := range strings.Lines(hunk) {
		if line == "\n" { // an editor may have removed the blank of an empty line
			line = " \n"
		}
		rest := line[1:]
		switch line[0] {
		case ' ':
			old.WriteString(rest)
			changed.WriteString(rest)
		case '-':
			old.WriteString(rest)
		case '+':
			changed.WriteString(rest)
		default:
			return m, fmt.Errorf("%q begins with neither blank, - nor +", line)
		}
	}
	m.old, m.new = old.String(), changed.String()
	switch {
	case m.Head["lua"] == "" && m.Head["file"] == "":
		return m, fmt.Errorf("its head names no lua file and no other one")
	case m.old == m.new || m.old == "":
		return m, fmt.Errorf("it changes nothing")
	}
	return m, nil
}

// Edit returns a file's text with the change in it.
func (m Mutation) Edit(text string) (string, error) {
	if n := strings.Count(text, m.old); n != 1 {
		return "", fmt.Errorf("mutation %s: what it changes is %d times in its file, want once: adapt its hunk", m.Name, n)
	}
	return strings.Replace(text, m.old, m.new, 1), nil
}

// Apply returns the sources of the scripts that the mutation changes, by the SHA-1 of the original.
func (m Mutation) Apply() (map[string]string, error) {
	changed, err := Change(m.Head["lua"], m.old, m.new)
	if err != nil {
		return nil, fmt.Errorf("mutation %s: %w", m.Name, err)
	}
	sources := map[string]string{}
	for _, s := range script.All() {
		if source, ok := changed[s.Source]; ok {
			sources[s.Hash()] = source
		}
	}
	return sources, nil
}

// Change returns the changed scripts of the protocol, by their original sources, when a text that
// occurs once in one of their files is replaced.
func Change(name, old, replacement string) (map[string]string, error) {
	before, err := lua.Sources(lua.Files())
	if err != nil {
		return nil, err
	}
	files, err := edited(name, old, replacement)
	if err != nil {
		return nil, err
	}
	after, err := lua.Sources(files)
	if err != nil {
		return nil, err
	}
	changed := map[string]string{}
	for script, was := range before {
		if is := after[script]; is.Source != was.Source {
			changed[was.Source] = is.Source
		}
	}
	if len(changed) == 0 {
		return nil, fmt.Errorf("no script is made of %s", name)
	}
	return changed, nil
}

// edited are the protocol's Lua files with one of them changed.
func edited(name, old, replacement string) (fs.FS, error) {
	all, found := fstest.MapFS{}, false
	err := fs.WalkDir(lua.Files(), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(lua.Files(), file)
		if err != nil {
			return err
		}
		if file == name {
			found = true
			if n := strings.Count(string(data), old); n != 1 {
				return fmt.Errorf("what it changes is %d times in %s, want once: adapt its hunk", n, name)
			}
			data = []byte(strings.Replace(string(data), old, replacement, 1))
		}
		all[file] = &fstest.MapFile{Data: data}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("there is no Lua file %s", name)
	}
	return all, err
}
