package lua

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Header has a script's declarations: its KEYS, ARGS and RETURNS.
type Header struct {
	Keys []string // names; if the last one ends with ..., it stands for any number
	Args []Arg    // of a call, or shared by the calls of a command
	Each []Arg    // of each session, where several calls share a command

	// Results are the tables that the script returns, by the name of their constructor.
	Results map[string]Result

	comment string // of the move, without the other path's declarations
}

// Arg is one word of ARGV, or a list of them after its length.
type Arg struct {
	Name  string
	Kind  Kind
	Field bool   // of the session's table, else a local
	doc   string // the text after its declaration
}

// Kind is how a script reads an argument.
type Kind string

// The kinds of arguments.
const (
	Text   Kind = "text"
	Int    Kind = "int"    // a whole number in Go, which the script uses as text
	Bit    Kind = "bit"    // a bool in Go, which the script uses as text: '1' or '0'
	Number Kind = "number" // a whole number
	Flag   Kind = "flag"   // a bool
	List   Kind = "list"
	Range  Kind = "range" // a list that stays where it is: ARGV[NAME_first] to ARGV[NAME_last]
)

// Result is a table that a script returns. Status is its first element, if it has one. Rest names
// the elements after the fields, if there may be any.
type Result struct {
	Status string
	Fields []Field
	Rest   string
}

// Field is an element of a result, NAME or NAME:TYPE. Its type is text, int, flag (1 is true), ms, list,
// or the name of a record: then it is a list of these.
type Field struct{ Name, Type string }

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
	argLine    = regexp.MustCompile(`^--   (s\.)?([a-z_]+)(?: (int|bit|number|flag|list|range))?(?:  +(.*))?$`)
	statusLine = regexp.MustCompile(`^--   '([a-z]+)'((?: [a-z_]+(?::[a-z]+|\.\.\.)?)*)(?:  .*)?$`)
	recordLine = regexp.MustCompile(`^--   ([a-z_]+):((?: [a-z_]+(?::[a-z]+|\.\.\.)?)*)(?:  .*)?$`)
)

// list reports whether the argument has any number of words. Lists follow all other arguments.
func (a Arg) list() bool { return a.Kind == List || a.Kind == Range }

// parseMove reads the header of a move for one path, and returns the text below it. In a block,
// lines that are indented by more than three spaces are prose.
func parseMove(text, path string) (h Header, body string, err error) {
	h.Results = map[string]Result{}
	var comment strings.Builder
	block, other := "", false // other: the block is the other path's
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "--") {
			h.comment = comment.String()
			return h, body, err
		}
		body = strings.TrimPrefix(text, line)
		text = body
		bare := strings.TrimRight(line, "\n")
		switch m := headline.FindStringSubmatch(bare); {
		case m != nil:
			block, other = m[1], m[2] != "" && m[2] != path
			if m[2] != "" {
				line = strings.Replace(strings.Replace(line, " "+m[2]+":", "", 1), " "+m[2], "", 1)
			}
			if block == "KEYS" && !other {
				h.Keys = append(h.Keys, strings.Fields(m[3])...)
			}
		case !strings.HasPrefix(bare, "--   "):
			block, other = "", false
		case other:
		case strings.HasPrefix(bare, "--    "):
			h.describe(block, strings.TrimSpace(bare[2:]))
		case !h.declare(block, bare):
			return h, "", fmt.Errorf("%s has a line that declares nothing: %q", block, bare)
		}
		if !other {
			comment.WriteString(line)
		}
	}
	return h, "", fmt.Errorf("there is a comment only")
}

// describe adds a line of prose to the argument above it.
func (h *Header) describe(block, line string) {
	list := h.Args
	if block == "EACH" {
		list = h.Each
	}
	if n := len(list); n > 0 && (block == "ARGS" || block == "EACH") {
		list[n-1].doc = strings.TrimSpace(list[n-1].doc + " " + line)
	}
}

// declare reads a line of a block. It returns false if the line declares nothing.
func (h *Header) declare(block, line string) bool {
	switch block {
	case "ARGS", "EACH":
		m := argLine.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		arg := Arg{Name: m[2], Kind: Kind(cmp.Or(m[3], string(Text))), Field: m[1] != "", doc: m[4]}
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
		result := Result{}
		if status {
			result.Status = m[1]
		}
		for _, field := range strings.Fields(m[2]) {
			name, rest := strings.CutSuffix(field, "...")
			if rest {
				result.Rest = name
				continue
			}
			name, kind, _ := strings.Cut(name, ":")
			if slices.ContainsFunc(result.Fields, func(f Field) bool { return f.Name == name }) || result.Rest != "" {
				return false
			}
			result.Fields = append(result.Fields, Field{name, cmp.Or(kind, "text")})
		}
		h.Results[m[1]] = result
	}
	return true
}
