package lua

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// expression is a function that only returns an expression, in which each parameter but the session
// occurs once.
type expression struct {
	params []string
	of     []string // the expression's text, divided at its parameters
	param  []int    // the parameter after each part but the last
	uses   map[string]bool
	call   bool // it is a call, and needs no parentheses
}

// rest stands for "...": all arguments from its place on.
const rest = "rest__"

var returning = regexp.MustCompile(`^local function ([a-z_]+)\(([^)]*)\)\s+return ([^\n]+?)\s+end\n$`)

// inline replaces calls of such functions by their expressions. A script creates its functions in
// every call, which costs more than most of them do.
func (p *parts) inline() error {
	known := map[string]expression{}
	for i, f := range p.functions {
		text := f.text
		p.functions[i].text = inlined(text, known)
		if m := returning.FindStringSubmatch(p.functions[i].text); m != nil {
			if e, ok := parseExpression(strings.Replace(m[2], "...", rest, 1), strings.Replace(m[3], "...", rest, 1)); ok {
				known[m[1]] = e
			}
		}
	}
	p.body = inlined(p.body, known)
	p.drop(known)
	return nil
}

// drop removes functions without a call.
func (p *parts) drop(known map[string]expression) {
	used := names(p.body)
	for i := len(p.functions) - 1; i >= 0; i-- {
		f := p.functions[i]
		if _, ok := known[f.name]; ok && !used[f.name] {
			if i >= len(p.functions)-p.own {
				p.own--
			}
			p.functions = slices.Delete(p.functions, i, i+1)
			continue
		}
		for name := range names(f.text) {
			used[name] = true
		}
	}
}

func parseExpression(params, text string) (e expression, ok bool) {
	for param := range strings.SplitSeq(params, ",") {
		e.params = append(e.params, strings.TrimSpace(param))
	}
	seen := map[string]int{}
	from := 0
	for start, name := range identifiers(text) {
		if i := slices.Index(e.params, name); i >= 0 && name != "s" {
			e.of, e.param = append(e.of, text[from:start]), append(e.param, i)
			from = start + len(name)
			seen[name]++
		}
	}
	e.of = append(e.of, text[from:])
	e.uses = names(strings.Join(e.of, " "))
	for _, param := range e.params {
		if param != "s" && seen[param] != 1 {
			return e, false
		}
	}
	open := strings.IndexByte(text, '(')
	e.call = open > 0 && len(names(text[:open])) > 0 && open+parenthesized(text[open:]) == len(text)
	return e, true
}

// inlined returns code with the known functions inlined. A call stays if a local of the code hides
// a name that the expression uses.
func inlined(code string, known map[string]expression) string {
	var out strings.Builder
	from, hiding := 0, sync.OnceValue(func() map[string]bool { return locals(code) })
	for start, name := range identifiers(code) {
		e, ok := known[name]
		open := start + len(name)
		if !ok || start < from || open >= len(code) || code[open] != '(' || strings.HasSuffix(code[:start], "function ") || e.usesAny(hiding()) {
			continue
		}
		end := open + parenthesized(code[open:])
		args := arguments(code[open+1 : end-1])
		if last := len(e.params) - 1; e.params[last] == rest && len(args) > last {
			args = append(args[:last:last], strings.Join(args[last:], ", "))
		}
		if len(args) != len(e.params) {
			continue
		}
		out.WriteString(code[from:start])
		out.WriteString(e.with(args, known))
		from = end
	}
	out.WriteString(code[from:])
	return out.String()
}

var declared = regexp.MustCompile(`\b(?:local|for|function) ([^=)\n]*)`)

// locals returns the names that code declares, except the session's. It may return more names than
// these.
func locals(code string) map[string]bool {
	found := map[string]bool{}
	for _, m := range declared.FindAllStringSubmatch(bare(code), -1) {
		maps.Copy(found, names(m[1]))
	}
	delete(found, "s")
	return found
}

func (e expression) usesAny(list map[string]bool) bool {
	for name := range e.uses {
		if list[name] {
			return true
		}
	}
	return false
}

var simple = regexp.MustCompile(`^([\w.]+|'[^']*')$`)

func (e expression) with(args []string, known map[string]expression) string {
	var out strings.Builder
	for i, part := range e.of {
		out.WriteString(part)
		if i < len(e.param) {
			if arg := inlined(args[e.param[i]], known); simple.MatchString(arg) || e.params[e.param[i]] == rest {
				out.WriteString(arg)
			} else {
				out.WriteString("(" + arg + ")")
			}
		}
	}
	if e.call {
		return out.String()
	}
	return "(" + out.String() + ")"
}

// parenthesized returns the length of the text from the parenthesis at its beginning to the one
// that closes it.
func parenthesized(code string) int {
	depth := 0
	for i := 0; i < len(code); i++ {
		switch code[i] {
		case '\'', '"':
			i += quoted(code[i:]) - 1
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(code)
}

// arguments splits a list of arguments at its commas.
func arguments(list string) (args []string) {
	from, depth := 0, 0
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case '\'', '"':
			i += quoted(list[i:]) - 1
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth--
		case ',':
			if depth == 0 {
				args, from = append(args, strings.TrimSpace(list[from:i])), i+1
			}
		}
	}
	return append(args, strings.TrimSpace(list[from:]))
}
