package walk

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
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

// Totals counts functions, and the packages in which they are.
type Totals struct{ Functions, Packages int }

// Page is the section "The walk" of docs/internals/architecture.md.
type Page struct {
	Hops   []Hop
	Walk   Totals // the page's count of Hops
	Passed Totals // the page's count of all functions that the message passes
}

var (
	// hopLine is a hop's line: a number, the function with its file, and its work.
	hopLine    = regexp.MustCompile("^[0-9]+\\. `([A-Za-z.]+)` \\(\\[([a-z_/.]+\\.go)\\]\\([^)]*\\)\\)")
	walkLine   = regexp.MustCompile(`\bwalk has ([0-9]+)\s+functions\s+in\s+([0-9]+)\s+packages\b`)
	passedLine = regexp.MustCompile(`\bmessage\s+passes\s+about\s+([0-9]+)\s+functions\s+in\s+([0-9]+)\s+packages\b`)
)

// Read reads the page.
func Read(path string) (Page, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Page{}, err
	}
	_, section, ok := strings.Cut(string(text), "\n## The walk\n")
	if !ok {
		return Page{}, fmt.Errorf("%s has no section \"The walk\"", path)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var page Page
	if page.Walk, err = totals(section, walkLine); err != nil {
		return Page{}, err
	}
	if page.Passed, err = totals(section, passedLine); err != nil {
		return Page{}, err
	}
	for line := range strings.Lines(section) {
		if m := hopLine.FindStringSubmatch(line); m != nil {
			page.Hops = append(page.Hops, Hop{File: m[2], Func: m[1]})
		}
	}
	return page, nil
}

func totals(section string, sentence *regexp.Regexp) (Totals, error) {
	m := sentence.FindStringSubmatch(section)
	if m == nil {
		return Totals{}, fmt.Errorf("the walk does not say %s", sentence)
	}
	functions, err := strconv.Atoi(m[1])
	if err != nil {
		return Totals{}, err
	}
	packages, err := strconv.Atoi(m[2])
	return Totals{Functions: functions, Packages: packages}, err
}

// margin is by how many functions the page may differ from a measurement, and packageMargin by how many
// packages. Functions of a worker's jobs are not counted, but a job runs only in some measurements, and may be
// the only one that needs its package.
const (
	margin        = 15
	packageMargin = 1
)

// Compare returns an error if the page does not have the measured numbers.
func (p Page) Compare(measured Totals) error {
	near := func(a, b, margin int) bool { return a-margin <= b && b <= a+margin }
	if !near(p.Passed.Functions, measured.Functions, margin) || !near(p.Passed.Packages, measured.Packages, packageMargin) {
		return fmt.Errorf("the message passed %d functions in %d packages, the page says %d in %d: correct it",
			measured.Functions, measured.Packages, p.Passed.Functions, p.Passed.Packages)
	}
	return nil
}
