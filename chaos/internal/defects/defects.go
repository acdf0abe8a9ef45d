// Package defects puts defects into copies of the programs. The checker must find each of them.
package defects

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"turnstile/test/mutation" //nolint:depguard // this module is a suite itself
)

// Defect is one change of one file of the tree.
type Defect struct {
	Name, Why string
	Rule      string   // the checker's rule that must find it
	Args      []string // flags of the run in which the rule must find it
	file      string
	change    mutation.Mutation
}

// Load reads an archive of defects: mutations with the names file, why, rule and run in their heads.
func Load(path string) ([]Defect, error) {
	all, err := mutation.Load(path)
	if err != nil {
		return nil, err
	}
	var list []Defect
	for _, m := range all {
		d := Defect{Name: m.Name, Why: m.Head["why"], Rule: m.Head["rule"], Args: words(m.Head["run"]), file: m.Head["file"], change: m}
		if d.file == "" || d.Rule == "" || d.Why == "" {
			return nil, fmt.Errorf("defect %s: its head lacks file, why or rule", d.Name)
		}
		list = append(list, d)
	}
	return list, nil
}

// words splits flags at blanks, except between double quotes.
func words(text string) (list []string) {
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			list = append(list, part)
		} else {
			list = append(list, strings.Fields(part)...)
		}
	}
	return list
}

// Overlay writes the changed file into dir, and returns it by the path of the original, for go build.
func (d Defect) Overlay(root, dir string) (map[string]string, error) {
	original, err := filepath.Abs(filepath.Join(root, d.file))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return nil, err
	}
	changed, err := d.change.Edit(string(text))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, filepath.Base(d.file))
	return map[string]string{original: file}, os.WriteFile(file, []byte(changed), 0o644)
}
