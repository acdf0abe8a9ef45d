package lua

import (
	"fmt"
	"regexp"
	"strings"
)

// value is the Lua expression that reads the argument from a word of ARGV.
func (a Arg) value(word string) string {
	switch a.Kind {
	case Number:
		return "tonumber(" + word + ")"
	case Flag:
		return word + " == '1'"
	}
	return word
}

// session declares the session's locals, which the library's functions use. On a fast path these
// are the arguments that all sessions share: eachSession sets the others.
func (h Header) session(fast bool) string {
	var names, values []string
	var out strings.Builder
	for i, name := range h.Keys {
		if list, all := strings.CutSuffix(name, "..."); all {
			fmt.Fprintf(&out, "local %s = {}\nfor i = %d, #KEYS do %s[i - %d] = KEYS[i] end\n", list, i+1, list, i)
			continue
		}
		names, values = append(names, "s_"+name), append(values, fmt.Sprintf("KEYS[%d]", i+1))
	}
	for i, arg := range h.Args {
		if arg.Field {
			names, values = append(names, "s_"+arg.Name), append(values, arg.value(fmt.Sprintf("ARGV[%d]", i+1)))
		}
	}
	if !fast {
		return out.String() + assignment("local ", names, values)
	}
	for i, arg := range h.Args {
		if arg.Field {
			fmt.Fprintf(&out, "local s_%s = %s\n", arg.Name, arg.value(fmt.Sprintf("ARGV[%d]", i+1)))
		}
	}
	return out.String()
}

func assignment(local string, names, values []string) string {
	if len(names) == 0 {
		return ""
	}
	return local + strings.Join(names, ", ") + " = " + strings.Join(values, ", ") + "\n"
}

// bindings declares the other arguments as locals. before is how many words of ARGV stand before
// them.
func bindings(args []Arg, before int) string {
	var names, values []string
	var lists strings.Builder
	for i, arg := range args {
		if arg.Kind == List {
			if lists.Len() == 0 {
				fmt.Fprintf(&lists, "local at = %d\nlocal function list()\n  local l, n = {}, tonumber(ARGV[at])\n"+
					"  for i = 1, n do l[i] = ARGV[at + i] end\n  at = at + n + 1\n  return l\nend\n", before+i+1)
			}
			fmt.Fprintf(&lists, "local %s = list()\n", arg.Name)
		} else if arg.Kind == Range && lists.Len() > 0 { // the last one
			fmt.Fprintf(&lists, "local %s_first, %s_last = at + 1, at + ARGV[at]\n", arg.Name, arg.Name)
		} else if !arg.Field {
			names, values = append(names, arg.Name), append(values, arg.value(fmt.Sprintf("ARGV[%d]", before+i+1)))
		}
	}
	return assignment("local ", names, values) + lists.String()
}

var returned = regexp.MustCompile(`\breturn (.*?)( end)?\n$`)

// eachSession runs body for each session, one after the other. A function for one session would
// cost more than the rest of the fast path's own work: so body is in a loop that runs once, with
// break in place of return.
func (h Header) eachSession(both, body string) (string, error) {
	var keys, names []string
	var converted string
	for _, key := range h.Keys {
		keys = append(keys, "s_"+key)
	}
	size := fmt.Sprint(len(h.Each))
	for i, arg := range h.Each {
		name := arg.Name
		if arg.Field {
			name = "s_" + name
		}
		if arg.Kind == Range { // the last one
			word := fmt.Sprintf("ARGV[a + %d]", i+1)
			converted += fmt.Sprintf("    local %s_first, %s_last = a + %d, a + %d + %s\n", name, name, i+2, i+1, word)
			size += " + " + word
			break
		}
		names = append(names, name)
		if arg.Kind == Number || arg.Kind == Flag {
			converted += fmt.Sprintf("    %s = %s\n", name, arg.value(name))
		}
	}
	var out strings.Builder
	out.WriteString(bindings(h.Args, 0) + both)
	fmt.Fprintf(&out, "\n-- Each round serves the session whose keys come after KEYS[k], and whose arguments after ARGV[a].\n"+
		"local results, k, a = {}, 0, %d\nwhile KEYS[k + 1] do\n  local result\n  repeat\n", len(h.Args))
	// One call for all words costs less than an index for each.
	fmt.Fprintf(&out, "    local %s = unpack(KEYS, k + 1, k + %d)\n", strings.Join(keys, ", "), len(keys))
	fmt.Fprintf(&out, "    local %s = unpack(ARGV, a + 1, a + %d)\n%s", strings.Join(names, ", "), len(names), converted)
	for line := range strings.Lines(body) {
		if strings.Contains(bare(line), "return") && !strings.Contains(line, "local function") {
			if strings.Contains(line, "--") || !returned.MatchString(line) {
				return "", fmt.Errorf("a fast path has a return that is not at the end of its line: %q", line)
			}
			line = returned.ReplaceAllString(line, "result = $1 break$2\n")
		}
		if line != "\n" {
			line = "    " + line
		}
		out.WriteString(line)
	}
	fmt.Fprintf(&out, "  until true\n  results[#results + 1] = result or {'special'}\n  k, a = k + %d, a + %s\nend\nreturn results\n", len(h.Keys), size)
	return out.String(), nil
}
