package lua

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Header is what a script's comment declares: its KEYS, ARGS and RETURNS.
type Header struct {
	Keys []string // names; the last one ends with ... where it stands for any number
	Args []Arg    // of a call, or shared by the calls of a command
	Each []Arg    // of each session, where several calls share a command

	// Results are the tables that the script returns, by the name of their constructor.
	Results map[string]Result
}

// Arg is one word of ARGV, or a list of them behind its length.
type Arg struct {
	Name  string
	Kind  Kind
	Field bool // of the session's table, else a local
}

// Kind is how a script reads an argument.
type Kind string

// The kinds of arguments. A script uses a text as it is.
const (
	Text   Kind = "text"
	Number Kind = "number"
	Flag   Kind = "flag"
	List   Kind = "list"
	Range  Kind = "range" // a list that stays where it is: ARGV[NAME_first] to ARGV[NAME_last]
)

// Result is a table that a script returns. Status is its first element, if it has one.
type Result struct {
	Status string
	Fields []string
}

// Key returns the key of that name in the KEYS of a call, for the call's first session.
func (h Header) Key(keys []string, name string) string {
	if i := slices.Index(h.Keys, name); i >= 0 && i < len(keys) {
		return keys[i]
	}
	return ""
}

// Word returns the argument of that name in the ARGV of a call, for the call's first session.
func (h Header) Word(argv []string, name string) string {
	at := 0
	for _, arg := range slices.Concat(h.Args, h.Each) {
		switch {
		case at >= len(argv):
			return ""
		case arg.Name == name:
			return argv[at]
		case arg.list():
			n, _ := strconv.Atoi(argv[at])
			at += n
		}
		at++
	}
	return ""
}

var (
	headline   = regexp.MustCompile(`^-- (KEYS|ARGS|EACH|RETURNS)(?: (fast|full):?)?( .*)?$`)
	argLine    = regexp.MustCompile(`^--   (s\.)?([a-z_]+)(?: (number|flag|list|range))?(?:  .*)?$`)
	statusLine = regexp.MustCompile(`^--   '([a-z]+)'((?: [a-z_]+)*)(?:  .*)?$`)
	recordLine = regexp.MustCompile(`^--   ([a-z_]+):((?: [a-z_]+)*)(?:  .*)?$`)
)

// list reports whether the argument has any number of words. Lists follow all other arguments.
func (a Arg) list() bool { return a.Kind == List || a.Kind == Range }

// parseMove reads the header of a move for one path, and returns the text below it. In a block,
// lines that are indented by more than three blanks are prose.
func parseMove(text, path string) (h Header, body string, err error) {
	h.Results = map[string]Result{}
	block := ""
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			return h, body, err
		}
		body = strings.TrimPrefix(text, line)
		text = body
		line = strings.TrimRight(line, "\n")
		if m := headline.FindStringSubmatch(line); m != nil {
			if block = m[1]; m[2] != "" && m[2] != path {
				block = ""
			}
			if block == "KEYS" {
				h.Keys = append(h.Keys, strings.Fields(m[3])...)
			}
		} else if !strings.HasPrefix(line, "--   ") {
			block = ""
		} else if !strings.HasPrefix(line, "--    ") && !h.declare(block, line) {
			return h, "", fmt.Errorf("%s has a line that declares nothing: %q", block, line)
		}
	}
	return h, "", fmt.Errorf("there is a comment only")
}

// declare reads a line of a block. It returns false if the line declares nothing.
func (h *Header) declare(block, line string) bool {
	switch block {
	case "ARGS", "EACH":
		m := argLine.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		arg := Arg{Name: m[2], Kind: Kind(cmp.Or(m[3], string(Text))), Field: m[1] != ""}
		into := &h.Args
		if block == "EACH" {
			into = &h.Each
		}
		if n := len(*into); n > 0 && (*into)[n-1].list() && !arg.list() {
			return false // its word would be one of the list's
		}
		*into = append(*into, arg)
	case "RETURNS":
		m, status := statusLine.FindStringSubmatch(line), true
		if m == nil {
			m, status = recordLine.FindStringSubmatch(line), false
		}
		if m == nil {
			return false
		}
		result := Result{Fields: strings.Fields(m[2])}
		if status {
			result.Status = m[1]
		}
		h.Results[m[1]] = result
	}
	return true
}
