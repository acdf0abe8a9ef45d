// Package mutation puts faults into Lua scripts, for tests that have to notice them.
//
// A mutation is a file: a head of "name: value" lines with at least
//
//	lua: finish.lua
//
// then an empty line and one hunk as diff -u writes it, without its line numbers.
// What the hunk removes has to be in that file once.
package mutation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"turnstile/internal/script"
)

// Mutation is one change of one Lua file.
type Mutation struct {
	Name string            // the file's, without .patch
	Head map[string]string // lua, and what else the file says
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
		if line == "\n" { // an editor may have taken the blank of an empty line
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
	case m.Head["lua"] == "":
		return m, fmt.Errorf("its head names no lua file")
	case m.old == m.new || m.old == "":
		return m, fmt.Errorf("it changes nothing")
	}
	return m, nil
}

// Apply answers the sources of the scripts that the mutation changes, by the SHA-1 of
// what they were.
func (m Mutation) Apply() (map[string]string, error) {
	file, err := find(m.Head["lua"])
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return nil, fmt.Errorf("mutation %s: what it changes is %d times in %s, want once: adapt its hunk", m.Name, n, m.Head["lua"])
	}
	mutated := strings.Replace(string(text), m.old, m.new, 1)
	sources := map[string]string{}
	for _, s := range script.All() {
		if strings.Contains(s.Source, string(text)) {
			sources[s.Hash()] = strings.Replace(s.Source, string(text), mutated, 1)
		}
	}
	if len(sources) == 0 {
		return nil, fmt.Errorf("mutation %s: no script is made of %s", m.Name, m.Head["lua"])
	}
	return sources, nil
}

// find is a Lua file of this module, by its name.
func find(name string) (string, error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if filepath.Dir(root) == root {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		root = filepath.Dir(root)
	}
	for _, dir := range []string{"internal/protocol/lua", "internal/script"} {
		file := filepath.Join(root, dir, name)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("there is no Lua file %s", name)
}
