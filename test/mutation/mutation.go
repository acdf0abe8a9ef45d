// Package mutation puts faults into Lua scripts, and into other files. Tests must notice them.
//
// A suite's mutations are one txtar archive. Each begins with a line "-- NAME --" and a head of "name: value" lines with at
// least
//
//	lua: finish.lua
//
// of internal/protocol/lua, or "file: PATH" of any file of the tree. Then come an empty line and one hunk in the form of
// diff -u, without its line numbers. The text that the hunk removes must occur once in that file.
package mutation

import (
	"fmt"
	"io/fs"
	"strings"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"turnstile/internal/protocol/lua"
	"turnstile/internal/redis/script"
)

// Mutation is one change of one Lua file.
type Mutation struct {
	Name string
	Head map[string]string // lua or file, and other names
	old  string
	new  string
}

// Load reads an archive of mutations.
func Load(path string) ([]Mutation, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	var all []Mutation
	for _, file := range archive.Files {
		m, err := parse(string(file.Data))
		if err != nil {
			return nil, fmt.Errorf("read %s of %s: %w", file.Name, path, err)
		}
		m.Name = file.Name
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no mutations", path)
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
	changed, err := m.Scripts()
	if err != nil {
		return nil, err
	}
	sources := map[string]string{}
	for _, s := range script.All() {
		if source, ok := changed[s.Source]; ok {
			sources[s.Hash()] = source
		}
	}
	return sources, nil
}

// Scripts returns the scripts of the protocol that the mutation changes, by their original sources.
func (m Mutation) Scripts() (map[string]string, error) {
	name := m.Head["lua"]
	before, err := lua.Sources(lua.Files())
	if err != nil {
		return nil, err
	}
	files, err := edited(name, m.old, m.new)
	if err != nil {
		return nil, fmt.Errorf("mutation %s: %w", m.Name, err)
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
