package walk

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Hop is one function of the walk.
type Hop struct {
	File string // from the module's root
	Func string // Name, or Type.Name
}

func (h Hop) String() string { return h.File + " " + h.Func }

// Package is the folder of the hop's file; "." is the module's root.
func (h Hop) Package() string {
	if i := strings.LastIndexByte(h.File, '/'); i >= 0 {
		return h.File[:i]
	}
	return "."
}

// hopLine is a hop's line: a number, the function and its file, and what it does.
var hopLine = regexp.MustCompile("^[0-9]+\\. `([A-Za-z.]+)` \\(\\[([a-z_/.]+\\.go)\\]\\([^)]*\\)\\)")

// Read reads the hops of a page's section "The walk".
func Read(path string) ([]Hop, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, section, ok := strings.Cut(string(page), "\n## The walk\n")
	if !ok {
		return nil, fmt.Errorf("%s has no section \"The walk\"", path)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var hops []Hop
	for line := range strings.Lines(section) {
		if m := hopLine.FindStringSubmatch(line); m != nil {
			hops = append(hops, Hop{File: m[2], Func: m[1]})
		}
	}
	return hops, nil
}
